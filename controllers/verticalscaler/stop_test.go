package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestSizedPodsStayUntilAStoppedScalerResumes(t *testing.T) {
	t.Parallel()
	for reason, stop := range map[string]func(*autoscalingv1beta1.VerticalScalerSpec){
		"UpdateModeOff": func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = autoscalingv1beta1.UpdateModeOff },
		"Suspended":     func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}).start(t)
			for _, pod := range w.pods {
				w.waitForResources(t, pod, 0, large, nil)
				testenv.RunPod(t, env, pod)
			}
			w.waitForApplied(t, isTrue, "Sized")
			running := w.scaler.Spec.DeepCopy()
			versions := w.versions(t)

			w.setSpec(t, stop)
			w.waitForApplied(t, isFalse, reason)
			created := w.newPod(newContainer("web", small, nil))
			w.waitForNewPod(t, created, small, nil)
			testenv.RunPod(t, env, testenv.Create(t, env, created))
			w.setPolicies(t, huge) // The pods no longer have the recommended size.
			w.waitForApplied(t, isFalse, reason)
			w.assertResizes(t, 2)
			assert.Equal(t, versions, w.versions(t))
			testenv.AssertSameJSON(t, small, testenv.Refresh(t, env, created).Spec.Containers[0].Resources.Requests)

			w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { *spec = *running })
			w.waitForResources(t, created, 0, large, nil)
			testenv.RunPod(t, env, created)
			w.waitForApplied(t, isTrue, "Sized")
			w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), large, nil)
			w.assertResizes(t, 3)
			assert.Equal(t, versions, w.versions(t))
			assert.Empty(t, w.writes.To("/deployments"))
		})
	}
}

// TestTerminatingScalerGivesUpItsSizes deletes a scaler that waits for a finalizer. Another scaler of
// the Deployment takes over.
func TestTerminatingScalerGivesUpItsSizes(t *testing.T) {
	t.Parallel()
	medium := testenv.Amounts("700m", "1536Mi")
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)})
	younger := testenv.NewScaler(w.namespace, "younger", "web")
	younger.Spec.Behavior, younger.Spec.ContainerPolicies = immediateBehavior(), fixedPolicies(medium)
	testenv.Create(t, env, younger)
	pod := w.pods[0]
	w.start(t).waitForResources(t, pod, 0, large, nil)
	testenv.RunPod(t, env, pod)
	w.waitForApplied(t, isTrue, "Sized")
	writes := len(w.writes.To("/verticalscalers/web/"))

	testenv.AddFinalizer(t, env, w.scaler)
	testenv.Delete(t, env, w.scaler)
	w.waitForResources(t, pod, 0, medium, nil)
	testenv.RunPod(t, env, pod)
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), medium, nil)
	w.setPolicies(t, huge) // What a terminating scaler recommends does not count.
	testenv.Edit(t, env, younger, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), small, nil)
	w.assertResizes(t, 2)
	assert.Len(t, w.writes.To("/verticalscalers/web/"), writes)
	assert.Empty(t, w.writes.To("/deployments"))
}

// versions returns the UIDs and the resource versions of the Deployment and of its first pods.
func (w *workload) versions(t *testing.T) []string {
	t.Helper()
	d := w.deployment(t)
	all := []string{string(d.UID) + " " + d.ResourceVersion}
	for _, pod := range w.pods {
		testenv.Refresh(t, w.env, pod)
		all = append(all, string(pod.UID)+" "+pod.ResourceVersion)
	}
	return all
}
