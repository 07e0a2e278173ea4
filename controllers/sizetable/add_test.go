package sizetable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestOnlyEventsThatCanChangeTheTableAreAccepted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*autoscalingv1beta1.VerticalScaler)
		want   bool
	}{
		"nothing":        {func(*autoscalingv1beta1.VerticalScaler) {}, false},
		"label":          {func(s *autoscalingv1beta1.VerticalScaler) { s.Labels = map[string]string{"team": "web"} }, false},
		"condition":      {func(s *autoscalingv1beta1.VerticalScaler) { setCondition(s) }, false},
		"recommendation": {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.PodTarget = huge }, false},
		"other notation of a size": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Status.Sizing[0].Requests["cpu"] = resource.MustParse("0.5")
		}, false},
		"size": {func(s *autoscalingv1beta1.VerticalScaler) {
			s.Status.Sizing[0].Requests["cpu"] = resource.MustParse("501m")
		}, true},
		"limit":                           {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.Sizing[0].Limits = huge }, true},
		"limit of the template":           {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.Sizing[0].TemplateLimits = huge }, true},
		"no size":                         {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.Sizing = nil }, true},
		"another Deployment":              {func(s *autoscalingv1beta1.VerticalScaler) { s.Status.DeploymentName = "api" }, true},
		"spec":                            {func(s *autoscalingv1beta1.VerticalScaler) { s.Generation++ }, true},
		"deletion":                        {func(s *autoscalingv1beta1.VerticalScaler) { s.DeletionTimestamp = new(metav1.Now()) }, true},
		"another scaler of the same name": {func(s *autoscalingv1beta1.VerticalScaler) { s.UID = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			previous := newSized("s", "web", 0, sizing("app", large.DeepCopy()))
			scaler := previous.DeepCopy()
			test.change(scaler)
			assert.Equal(t, test.want, sizingChanged().Update(event.UpdateEvent{ObjectOld: previous, ObjectNew: scaler}))
		})
	}
}

func setCondition(scaler *autoscalingv1beta1.VerticalScaler) {
	meta.SetStatusCondition(&scaler.Status.Conditions, metav1.Condition{
		Type: autoscalingv1beta1.ConditionApplied, Status: metav1.ConditionTrue, Reason: autoscalingv1beta1.ReasonSized,
	})
}

// delays is a queue that records with which delay a request is added.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added map[reconcile.Request][]time.Duration
}

// AddAfter records the delay of a request.
func (d *delays) AddAfter(request reconcile.Request, after time.Duration) {
	d.added[request] = append(d.added[request], after)
}

func TestChangesOfANamespaceAreCollected(t *testing.T) {
	t.Parallel()
	queue := &delays{added: map[reconcile.Request][]time.Duration{}}
	created, changed, deleted := newSized("a", "web", 0), newSized("b", "api", 0), newSized("c", "cron", 0)
	handler := tableOfNamespace()
	handler.Create(t.Context(), event.CreateEvent{Object: created}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: changed, ObjectNew: changed}, queue)
	handler.Delete(t.Context(), event.DeleteEvent{Object: deleted}, queue)
	assert.Equal(t, map[reconcile.Request][]time.Duration{
		{NamespacedName: types.NamespacedName{Namespace: "default", Name: "upright"}}: {collectTime, collectTime, collectTime},
	}, queue.added, "one request, a moment after each change")
	assert.Positive(t, collectTime)
}
