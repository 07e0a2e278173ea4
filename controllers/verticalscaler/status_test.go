package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestScalerStatusSaysWhatStandsInTheWayFirst(t *testing.T) {
	t.Parallel()
	exists := newDeploymentMetadata()
	ending := newDeploymentMetadata()
	ending.DeletionTimestamp = new(metav1.Now())
	rival := newScaler("one", "rival", "web")
	for name, test := range map[string]struct {
		target    *metav1.PartialObjectMetadata
		rival     *autoscalingv1beta1.VerticalScaler
		suspended bool
		ready     metav1.ConditionStatus
		reason    string
		message   string
	}{
		"all is well":                     {exists, nil, false, isFalse, "NoPods", `Deployment "web" has no pods: usage is measured as soon as it has.`},
		"no target":                       {nil, nil, false, isFalse, "DeploymentNotFound", `There is no Deployment "web" in this namespace: create it or correct spec.deploymentName.`},
		"the target goes":                 {ending, nil, false, isFalse, "DeploymentTerminating", `Deployment "web" is being deleted; one created anew is found at once.`},
		"a rival":                         {exists, rival, false, isFalse, "Conflicted", `VerticalScaler "rival" is older and acts on Deployment "web": delete one of the two.`},
		"a rival, no target":              {nil, rival, false, isFalse, "Conflicted", `VerticalScaler "rival" is older and acts on Deployment "web": delete one of the two.`},
		"a rival, suspended":              {exists, rival, true, isFalse, "Conflicted", `VerticalScaler "rival" is older and acts on Deployment "web": delete one of the two.`},
		"suspended":                       {exists, nil, true, isFalse, "Suspended", "spec.suspend is set: nothing is learned, recommended or applied until it is removed."},
		"suspended, no target to be sure": {nil, nil, true, isFalse, "Suspended", "spec.suspend is set: nothing is learned, recommended or applied until it is removed."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaler := newScaler("one", "s", "web")
			scaler.Generation = 7
			scaler.Spec.Suspend = test.suspended
			status := scalerStatus(scaler, findings{target: test.target, rival: test.rival}, time.Now())
			assertCondition(t, status.Conditions, "Ready", test.ready, test.reason)
			assert.Equal(t, test.message, condition(status, "Ready").Message)
			if test.suspended {
				assertCondition(t, status.Conditions, "Applied", isFalse, test.reason)
			}
			assert.Equal(t, int64(7), status.ObservedGeneration)
		})
	}
}

func TestScalerStatusIsTheSameAsLongAsItsReasonsAre(t *testing.T) {
	t.Parallel()
	scaler, start := newScaler("one", "s", "web"), time.Now()
	scaler.Generation = 1
	scaler.Status = scalerStatus(scaler, findings{}, start)
	assert.Equal(t, scaler.Status, scalerStatus(scaler, findings{}, start.Add(time.Hour)))

	scaler.Generation = 2
	later := scalerStatus(scaler, findings{}, start.Add(time.Hour))
	for _, c := range later.Conditions {
		assert.Equal(t, int64(2), c.ObservedGeneration, c.Type)
		assert.True(t, c.LastTransitionTime.Time.Equal(start), "%s has not changed its status", c.Type)
	}
	found := scalerStatus(scaler, findings{target: newDeploymentMetadata()}, start.Add(time.Hour))
	assert.True(t, condition(found, "TargetFound").LastTransitionTime.Time.Equal(start.Add(time.Hour)))
	assert.True(t, condition(found, "Conflicted").LastTransitionTime.Time.Equal(start))
}

func TestScalerStatusKeepsWhatOthersWroteWhileTheTargetIsAway(t *testing.T) {
	t.Parallel()
	scaler := newScaler("one", "s", "web")
	scaler.Status.DeploymentName = "web"
	scaler.Status.Sizing = []autoscalingv1beta1.ContainerSizing{{ContainerName: "web"}}
	scaler.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "Unknown", Reason: "Pending"},
		{Type: "Other", Status: isTrue, Reason: "Told"},
	}
	before := scaler.DeepCopy()
	recommended := advice{recommendations: []autoscalingv1beta1.ContainerRecommendation{{ContainerName: "web"}}}
	status := scalerStatus(scaler, findings{advice: recommended}, time.Now())
	assert.Equal(t, before, scaler, "what was read is not changed")
	assert.Equal(t, before.Status.Sizing, status.Sizing)
	assertCondition(t, status.Conditions, "Other", isTrue, "Told")
	assertCondition(t, status.Conditions, "Applied", isFalse, "DeploymentNotFound")
	assertCondition(t, status.Conditions, "Ready", isFalse, "DeploymentNotFound")
}

func TestOlderIsByAgeAndThenByName(t *testing.T) {
	t.Parallel()
	at := func(name string, second int64) *autoscalingv1beta1.VerticalScaler {
		s := newScaler("one", name, "web")
		s.CreationTimestamp = metav1.Unix(second, 0)
		return s
	}
	assert.True(t, older(at("b", 1), at("a", 2)))
	assert.False(t, older(at("a", 2), at("b", 1)))
	assert.True(t, older(at("a", 1), at("b", 1)))
	assert.False(t, older(at("b", 1), at("a", 1)))
	assert.False(t, older(at("a", 1), at("a", 1)), "none is older than itself")
}

func TestARecreatedScalerChangesItsClaimAlsoWhenTheCacheSeesAnUpdate(t *testing.T) {
	t.Parallel()
	before, after := newScaler("one", "s", "web"), newScaler("one", "s", "web")
	before.UID, after.UID = "1", "2"
	assert.True(t, claimChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	after.UID = "1"
	assert.False(t, claimChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
}
