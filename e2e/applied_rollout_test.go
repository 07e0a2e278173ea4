package e2e_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestRolloutWaitsForTheRolloutBeforeIt(t *testing.T) {
	t.Parallel()
	type deployment = *appsv1.Deployment
	type scaler = *autoscalingv1beta1.VerticalScaler
	setCooldown := func(s scaler, seconds int) { s.Spec.Behavior.Rollout.CooldownSeconds = new(int32(seconds)) }
	rollOut := func(d deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.com/other:2" }
	for reason, c := range map[string]struct {
		// Changes to the settled Deployment, and then to the scaler before it is created.
		deployment func(deployment)
		scaler     func(scaler)
		// Changes after which the scaler's rollout can start.
		releaseDeployment func(deployment)
		releaseScaler     func(scaler)
	}{
		"RolloutInProgress": {
			deployment:        func(d deployment) { rollOut(d); d.Spec.MinReadySeconds = 500 },
			releaseDeployment: func(d deployment) { d.Spec.MinReadySeconds = 0 },
		},
		"RolloutCooldown": {
			deployment: rollOut,
			scaler:     func(s scaler) { setCooldown(s, 3600) },
			releaseScaler: func(s scaler) { // No event marks the end of a cooldown.
				setCooldown(s, int(time.Since(s.CreationTimestamp.Time).Seconds())+5)
			},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			d := create(t, newWebDeployment(namespace, 2, "Infeasible"))
			waitForSettled(t, d)
			edit(t, d, c.deployment)
			scaler := newImmediateScaler(namespace, "web")
			if c.scaler != nil {
				c.scaler(scaler)
			}
			create(t, scaler)

			waitForApplied(t, scaler, metav1.ConditionFalse, reason)

			running := names(listPods(t, namespace))
			waitForUsageRead(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
			assert.Equal(t, running, names(listPods(t, namespace)))
			if c.releaseDeployment != nil {
				edit(t, d, c.releaseDeployment)
			}
			if c.releaseScaler != nil {
				edit(t, scaler, c.releaseScaler)
			}
			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
			waitForResources(t, d, recommendedResources, 2)
			assert.Equal(t, 1, countScalerWrites(t, namespace, "deployments"))
		})
	}
}

// A PodDisruptionBudget does not limit rollouts: the Deployment's strategy does.
func TestRolloutKeepsToTheStrategyAndRunsOnceDespiteManyEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ replicas, minAvailable int32 }{
		"a quarter of four pods may be unavailable":           {4, 3},
		"a single pod stays until its successor is available": {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			d := create(t, newWebDeployment(namespace, c.replicas, "Infeasible"))
			create(t, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
				Spec: policyv1.PodDisruptionBudgetSpec{
					Selector: d.Spec.Selector, MaxUnavailable: new(intstr.FromInt(0)),
				},
			})
			waitForSettled(t, d)
			deployments := startWatch(t, &appsv1.DeploymentList{}, namespace)
			scaler := create(t, newImmediateScaler(namespace, "web"))
			minAvailable, edits := c.replicas, 0

			waitForWatchEvent(t, deployments, func(e watch.Event) bool {
				current, ok := e.Object.(*appsv1.Deployment)
				require.True(t, ok)
				status := &current.Status
				minAvailable = min(minAvailable, status.AvailableReplicas)
				// Add events of the Deployment and of the scaler to those of the rollout.
				if isStarted := current.Generation > 1; isStarted && edits < 20 {
					edits++
					edit(t, current, func(d *appsv1.Deployment) {
						metav1.SetMetaDataAnnotation(&d.ObjectMeta, "edited", strconv.Itoa(edits))
					})
					edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
						metav1.SetMetaDataAnnotation(&s.ObjectMeta, "edited", strconv.Itoa(edits))
					})
				}
				return current.Generation > 1 && status.ObservedGeneration == current.Generation && edits == 20 &&
					status.Replicas == c.replicas && status.UpdatedReplicas == c.replicas && status.AvailableReplicas == c.replicas
			})

			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
			waitForResources(t, d, recommendedResources, int(c.replicas))
			assert.GreaterOrEqual(t, minAvailable, c.minAvailable, "available pods at any time")
			assert.Len(t, replicaSetNames(t, namespace), 2)
			assert.Equal(t, 1, countScalerWrites(t, namespace, "deployments"))
		})
	}
}
