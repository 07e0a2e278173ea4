package verticalscaler

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

// publishedStatus returns the status that a reconcile publishes for what it observes.
func publishedStatus(
	scaler *autoscalingv1beta1.VerticalScaler, now time.Time, observe func(*scope),
) autoscalingv1beta1.VerticalScalerStatus {
	s := newScope(scaler, now)
	if observe != nil {
		observe(s)
	}
	(&Reconciler{}).size(s)
	s.setConditions()
	return s.status
}

func TestReadyReportsTheFirstObstacle(t *testing.T) {
	t.Parallel()
	const (
		conflictedMessage = `VerticalScaler "older" is older and acts on Deployment "web". Delete one of the two.`
		suspendedMessage  = "spec.suspend is set: the controller does not learn, recommend or apply."
	)
	target, terminating := cache.NewDeploymentMetadata(), cache.NewDeploymentMetadata()
	terminating.DeletionTimestamp = new(metav1.Now())
	older := testenv.NewScaler("one", "older", "web")
	for name, test := range map[string]struct {
		target      *metav1.PartialObjectMetadata
		older       *autoscalingv1beta1.VerticalScaler
		isSuspended bool
		reason      string
		message     string
	}{
		"target exists":         {target, nil, false, "NoPods", `Deployment "web" has no pods, so there is no usage.`},
		"no target":             {nil, nil, false, "DeploymentNotFound", `Deployment "web" does not exist in this namespace. Create it or correct spec.deploymentName.`},
		"target is terminating": {terminating, nil, false, "DeploymentTerminating", `Deployment "web" is being deleted. A re-created Deployment is picked up immediately.`},
		"conflict":              {target, older, false, "Conflicted", conflictedMessage},
		"conflict, no target":   {nil, older, false, "Conflicted", conflictedMessage},
		"conflict, suspended":   {target, older, true, "Conflicted", conflictedMessage},
		"suspended":             {target, nil, true, "Suspended", suspendedMessage},
		"suspended, no target":  {nil, nil, true, "Suspended", suspendedMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaler := testenv.NewScaler("one", "s", "web")
			scaler.Generation = 7
			scaler.Spec.Suspend = test.isSuspended
			status := publishedStatus(scaler, time.Now(), func(s *scope) { s.target, s.older = test.target, test.older })
			testenv.AssertCondition(t, status.Conditions, "Ready", isFalse, test.reason)
			assert.Equal(t, test.message, message(status, "Ready"))
			if test.isSuspended {
				testenv.AssertCondition(t, status.Conditions, "Applied", isFalse, test.reason)
			}
			assert.Equal(t, int64(7), status.ObservedGeneration)
		})
	}
}

func TestUnchangedConditionsKeepTheirTransitionTime(t *testing.T) {
	t.Parallel()
	scaler, start := testenv.NewScaler("one", "s", "web"), time.Now()
	scaler.Generation = 1
	scaler.Status = publishedStatus(scaler, start, nil)
	later := start.Add(time.Hour)
	assert.Equal(t, scaler.Status, publishedStatus(scaler, later, nil))

	scaler.Generation = 2
	for _, c := range publishedStatus(scaler, later, nil).Conditions {
		assert.Equal(t, int64(2), c.ObservedGeneration, c.Type)
		assert.True(t, c.LastTransitionTime.Time.Equal(start), "%s has the same status as before", c.Type)
	}
	status := publishedStatus(scaler, later, func(s *scope) { s.target = cache.NewDeploymentMetadata() })
	transition := func(conditionType string) time.Time {
		return meta.FindStatusCondition(status.Conditions, conditionType).LastTransitionTime.Time
	}
	assert.True(t, transition("TargetFound").Equal(later))
	assert.True(t, transition("Conflicted").Equal(start))
}

func TestStatusWithoutTargetKeepsSizingAndOtherConditions(t *testing.T) {
	t.Parallel()
	scaler := testenv.NewScaler("one", "s", "web")
	scaler.Status.DeploymentName = "web"
	scaler.Status.Recommendations = []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "web"}}
	scaler.Status.Sizing = []autoscalingv1beta1.ContainerSizing{{ContainerName: "web"}}
	scaler.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "Unknown", Reason: "Pending"},
		{Type: "Other", Status: isTrue, Reason: "OfAnother"},
	}
	before := scaler.DeepCopy()
	status := publishedStatus(scaler, time.Now(), nil)
	assert.Equal(t, before, scaler, "the object from the cache does not change")
	assert.Equal(t, before.Status.Sizing, status.Sizing)
	testenv.AssertCondition(t, status.Conditions, "Other", isTrue, "OfAnother")
	testenv.AssertCondition(t, status.Conditions, "Applied", isFalse, "DeploymentNotFound")
	testenv.AssertCondition(t, status.Conditions, "Ready", isFalse, "DeploymentNotFound")
}

// Otherwise, the condition would keep the transition time of the default status, which is 1970.
func TestFailedStepReplacesTheDefaultStatus(t *testing.T) {
	t.Parallel()
	scaler, now := testenv.NewScaler("one", "s", "web"), time.Now()
	scaler.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "Unknown", Reason: "Pending", LastTransitionTime: metav1.Unix(0, 0)},
	}
	status := publishedStatus(scaler, now, func(s *scope) {
		s.fail(autoscalingv1beta1.ReasonObserveFailed, "Cannot read", errors.New("the cache failed"))
	})
	testenv.AssertCondition(t, status.Conditions, "Ready", "Unknown", "ObserveFailed")
	assert.True(t, meta.FindStatusCondition(status.Conditions, "Ready").LastTransitionTime.Time.Equal(now))
}

func TestAgeThenNameDecideWhichScalerIsOlder(t *testing.T) {
	t.Parallel()
	created := func(name string, second int64) *autoscalingv1beta1.VerticalScaler {
		scaler := testenv.NewScaler("one", name, "web")
		scaler.CreationTimestamp = metav1.Unix(second, 0)
		return scaler
	}
	assert.True(t, created("b", 1).IsOlderThan(created("a", 2)))
	assert.False(t, created("a", 2).IsOlderThan(created("b", 1)))
	assert.True(t, created("a", 1).IsOlderThan(created("b", 1)))
	assert.False(t, created("b", 1).IsOlderThan(created("a", 1)))
	assert.False(t, created("a", 1).IsOlderThan(created("a", 1)), "no scaler is older than itself")
}
