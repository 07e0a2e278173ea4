package verticalscaler

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"example.com/upright/internal/testenv"
)

// setQuota creates a ResourceQuota that is used up to what small pods need.
func (w *workload) setQuota(t *testing.T, hard corev1.ResourceList) {
	t.Helper()
	quota := testenv.Create(t, env, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	})
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{}}
	for name, used := range map[corev1.ResourceName]corev1.ResourceName{"requests.cpu": "cpu", "requests.memory": "memory"} {
		if _, isHard := hard[name]; isHard {
			quota.Status.Used[name] = small[used]
		}
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), quota))
}

func TestRefusedResizeIsRepeatedOnlyIfItChanges(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 2, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode)
	w.setQuota(t, corev1.ResourceList{"requests.cpu": large["cpu"]})
	size := testenv.Amounts("1", "256Mi")
	w.setPolicies(t, size)
	message := w.start(t).waitForApplied(t, isFalse, "ResizeRefused")
	assert.Contains(t, message, "2 of 2 pods cannot be resized")
	assert.Contains(t, message, "exceeded quota: quota, requested: requests.cpu=900m, limited: requests.cpu=500m", "without what changes all the time")
	w.assertResizes(t, 2)
	assert.InDelta(t, 2, w.manager.Value(t, "upright_pod_resizes_total", "refused"), 0)
	assert.Zero(t, testenv.EventReasons(t, env, w.scaler)["Resized"])

	w.setPolicies(t, testenv.Amounts("250m", "256Mi"))
	for _, pod := range w.pods {
		w.waitForResources(t, pod, 0, testenv.Amounts("250m", "256Mi"), nil)
	}
	w.assertResizes(t, 4)
}

// TestOneResourceIsResizedWhileAQuotaRefusesTheOther shows that the resources are tried one by
// one, and that the refused one is not repeated when the other is in force.
func TestOneResourceIsResizedWhileAQuotaRefusesTheOther(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode)
	w.setQuota(t, corev1.ResourceList{"requests.memory": small["memory"]})
	w.start(t)
	onlyCPU := corev1.ResourceList{"cpu": large["cpu"], "memory": small["memory"]}
	w.waitForResources(t, w.pods[0], 0, onlyCPU, nil)
	testenv.RunPod(t, env, w.pods[0])
	assert.Contains(t, w.waitForApplied(t, isFalse, "ResizeRefused"), "requested: requests.memory")
	w.assertResizes(t, 3) // Both, CPU, memory.
	w.waitForResources(t, w.pods[0], 0, onlyCPU, nil)
}

func TestWindowsPodsAreReportedWithoutARequest(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode, func(w *workload) {
		w.pods[0].Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	}).start(t)
	w.waitForApplied(t, isFalse, "ResizeUnsupported")
	w.assertResizes(t, 0)
}

// TestUnknownSubresourceIsNotASuccess shows an API server without pods/resize. It responds as for
// a pod that does not exist.
func TestUnknownSubresourceIsNotASuccess(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInPlaceMode)
	w.manager = startManagerIn(t, env, w.namespace, &w.meter, w.writes.Record,
		testenv.Fault(func(request *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(request.URL.Path, "/resize") {
				return nil, nil
			}
			return &http.Response{
				StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader("404 page not found\n")),
				Header: http.Header{"Content-Type": {"text/plain"}}, Request: request,
			}, nil
		}))
	w.waitForApplied(t, isFalse, "ResizeUnsupported")
}

func TestOnlyAMissingPodIsGone(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	assert.True(t, isGone(apierrors.NewNotFound(pods, "web"), pod))
	assert.False(t, isGone(apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", pods, "web", "404 page not found", 0, true), pod))
	assert.False(t, isGone(&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}}, pod))
	assert.False(t, isGone(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default"), pod))
	assert.False(t, isGone(errors.New("not found"), pod))

	s := newScope(testenv.NewScaler("default", "web", "web"), time.Now())
	s.result.add(pod, reasonGone, "")
	assert.Zero(t, s.result.pods)
}

func TestReasonOfARefusedResize(t *testing.T) {
	t.Parallel()
	withCause := func(cause metav1.CauseType) error {
		refused := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("the reason"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: cause}}
		return refused
	}
	invalid := func(message string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{field.Forbidden(field.NewPath("spec"), message)})
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"too large for the node": {withCause("NodeCapacity"), "ResizeInfeasible"},
		"Windows node":           {withCause("UnsupportedPlatform"), "ResizeUnsupported"},
		"Windows pod":            {invalid("windows pods cannot be resized"), "ResizeUnsupported"},
		"old node":               {invalid("Pod running on node without support for resize"), "ResizeUnsupported"},
		"resource claims":        {invalid("pods with node allocatable resource claims cannot be resized"), "ResizeUnsupported"},
		"quota":                  {withCause(""), "ResizeRefused"},
		"validation":             {invalid("memory limits cannot be decreased"), "ResizeRefused"},
		"no such subresource":    {apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{}, "web", "", 0, true), "ResizeUnsupported"},
	} {
		reason, first := reasonOf(test.err)
		assert.Equal(t, test.want, reason, name)
		assert.Equal(t, test.want != "ResizeRefused", first > refusalPause, name)
	}
}

func TestRefusedResizeIsRepeatedAtMostOnceADay(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	known, both := podAttempts{}, resourceSet{cpu: true, memory: true}
	var pauses []time.Duration
	for range 11 {
		require.Nil(t, known.refusal(both, "patch", now))
		pauses = append(pauses, known.refuse(both, refusal{patch: "patch", reason: "ResizeRefused"}, now, refusalPause))
		require.NotNil(t, known.refusal(both, "patch", now.Add(pauses[len(pauses)-1]-1)))
		assert.Nil(t, known.refusal(both, "other", now), "another size is tried at once")
		assert.Nil(t, known.refusal(resourceSet{cpu: true}, "patch", now), "as is one resource")
		now = now.Add(pauses[len(pauses)-1])
	}
	assert.Equal(t, []time.Duration{refusalPause, 2 * refusalPause, 4 * refusalPause}, pauses[:3])
	assert.Equal(t, maxPause, pauses[10])
	assert.Equal(t, refusalPause, known.refuse(both, refusal{reason: "ResizeRefused"}, now.Add(2*maxPause), refusalPause), "after a long time")
	assert.Equal(t, infeasiblePause, known.refuse(both, refusal{reason: "ResizeInfeasible"}, now, infeasiblePause), "another reason")
}

func TestUnsupportedPodGetsNoOtherResizeEither(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	known := podAttempts{}
	known.refuse(anyResources, refusal{patch: "patch", reason: "ResizeUnsupported"}, now, infeasiblePause)
	assert.NotNil(t, known.refusal(resourceSet{cpu: true}, "other", now))
	assert.Nil(t, known.refusal(resourceSet{cpu: true}, "other", now.Add(infeasiblePause)))
}
