package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/testenv"
)

func newLimitRange(namespace string, item corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}},
	}
}

func TestContainerLimitRangeBoundsSizingUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, testenv.Amounts("200m", "512Mi"))}, useInitialMode).start(t)
	w.waitForSizing(t, newSizing("web", large, huge))
	limits := testenv.Create(t, env, newLimitRange(w.namespace, corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Max: testenv.Amounts("600m", "1536Mi"),
	}))
	w.waitForSizing(t, newSizing("web", large, testenv.Amounts("600m", "1536Mi")))
	testenv.Delete(t, env, limits)
	w.waitForSizing(t, newSizing("web", large, huge))
}

func TestNewPodsGetASizeThatAPodLimitRangeAllows(t *testing.T) {
	t.Parallel()
	small, limits := testenv.Amounts("100m", "128Mi"), testenv.Amounts("200m", "256Mi")
	for name, test := range map[string]struct {
		item             corev1.LimitRangeItem
		target           corev1.ResourceList
		requests, limits corev1.ResourceList
		message          string
	}{
		"max": {
			item: corev1.LimitRangeItem{Max: testenv.Amounts("800m", "1Gi")}, target: large,
			requests: testenv.Amounts("200m", "256Mi"), limits: testenv.Amounts("400m", "512Mi"),
			message: `below their target: "web", "log"`,
		},
		"min": {
			item: corev1.LimitRangeItem{Min: testenv.Amounts("200m", "256Mi")}, target: testenv.Amounts("50m", "32Mi"),
			requests: testenv.Amounts("100m", "128Mi"), limits: testenv.Amounts("200m", "256Mi"),
		},
		"ratio": {
			item: corev1.LimitRangeItem{MaxLimitRequestRatio: testenv.Amounts("2", "2")}, target: large,
			requests: large, limits: huge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			containers := []corev1.Container{newContainer("web", small, limits), newContainer("log", small, limits)}
			w := newWorkload(t, 1, containers, useInitialMode, func(w *workload) {
				w.scaler.Spec.ContainerPolicies = fixedPolicies(test.target)
			})
			test.item.Type = corev1.LimitTypePod
			testenv.Create(t, env, newLimitRange(w.namespace, test.item))
			w.start(t).waitForSizing(t, newSizing("web", test.requests, test.limits), newSizing("log", test.requests, test.limits))
			w.waitForNewPod(t, w.newPod(containers...), test.requests, test.limits)
			applied := w.waitForApplied(t, isTrue, "SizedAtCreation")
			if test.message == "" {
				assert.NotContains(t, applied, "below their target")
			} else {
				assert.Contains(t, applied, test.message)
			}

			// The API server enforces the LimitRange: it rejects a pod of the target's size.
			pod := w.newPod(containers...)
			pod.Labels, pod.OwnerReferences = nil, nil
			for i := range pod.Spec.Containers {
				pod.Spec.Containers[i].Resources.Requests = test.target.DeepCopy()
				pod.Spec.Containers[i].Resources.Limits = testenv.Amounts("2", "4Gi")
			}
			require.ErrorContains(t, env.Client.Create(t.Context(), pod, client.DryRunAll), "per Pod is")
		})
	}
}

func TestRunningPodsFollowAPodLimitRange(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, limits), newContainer("log", small, limits)}, useInPlaceMode,
		func(w *workload) {
			w.pods[0].Spec.Containers = []corev1.Container{newContainer("web", large, huge), newContainer("log", large, huge)}
		}).start(t)
	w.waitForApplied(t, isTrue, "Sized")
	testenv.Create(t, env, newLimitRange(w.namespace, corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: testenv.Amounts("1600m", "4Gi")}))
	w.waitForResources(t, w.pods[0], 0, testenv.Amounts("400m", "1Gi"), testenv.Amounts("800m", "2Gi"))
	w.waitForResources(t, w.pods[0], 1, testenv.Amounts("400m", "1Gi"), testenv.Amounts("800m", "2Gi"))
	w.assertResizes(t, 1)
}
