package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// When a scaler stops applying, running pods keep their size and new pods get the template's resources.
func TestRunningPodsKeepTheirSizeWhenScalerStopsApplying(t *testing.T) {
	t.Parallel()
	type scaler = *autoscalingv1beta1.VerticalScaler
	setMode := func(mode autoscalingv1beta1.UpdateMode) func(scaler) {
		return func(s scaler) { s.Spec.UpdateMode = mode }
	}
	setSuspend := func(suspend bool) func(scaler) { return func(s scaler) { s.Spec.Suspend = suspend } }
	for reason, c := range map[string]struct{ stop, resume func(scaler) }{
		"UpdateModeOff": {setMode(autoscalingv1beta1.UpdateModeOff), setMode(autoscalingv1beta1.UpdateModeInPlaceOrRollout)},
		"Suspended":     {setSuspend(true), setSuspend(false)},
		"Deleted":       {},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := create(t, newWebDeployment(namespace, 2, "Granted"))
			scaler := create(t, newImmediateScaler(namespace, "web"))
			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
			waitForResources(t, deployment, recommendedResources, 2)
			waitForSettled(t, deployment)
			before := workloadVersions(t, namespace)

			if c.stop == nil {
				remove(t, scaler)
				waitForGone(t, scaler)
				waitForGarbageCollection(t, namespace)
			} else {
				edit(t, scaler, c.stop)
				waitForApplied(t, scaler, metav1.ConditionFalse, reason)
				waitForUsageRead(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			}

			assert.Equal(t, before, workloadVersions(t, namespace), "UIDs and resource versions")
			requireResources(t, templateResources, replacePods(t, deployment))
			if c.resume == nil {
				scaler = create(t, newImmediateScaler(namespace, "web"))
			} else {
				edit(t, scaler, c.resume)
			}
			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
			waitForResources(t, deployment, recommendedResources, 2)
		})
	}
}
