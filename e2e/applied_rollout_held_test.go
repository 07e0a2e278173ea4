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

func TestARolloutWaitsUntilItMayBegin(t *testing.T) {
	t.Parallel()
	type deployment = *appsv1.Deployment
	type scaler = *autoscalingv1beta1.VerticalScaler
	cooldown := func(s scaler, seconds int) { s.Spec.Behavior.Rollout.CooldownSeconds = new(int32(seconds)) }
	rolling := func(surge, unavailable int) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt(unavailable)),
		}}
	}
	for name, c := range map[string]struct {
		// What is done to a settled Deployment, and asked of the scaler, before it is created.
		deployment func(deployment)
		scaler     func(scaler)
		reason     string
		// What lets the rollout begin.
		releaseDeployment func(deployment)
		releaseScaler     func(scaler)
	}{
		"of a Deployment that is paused": {
			deployment: func(d deployment) { d.Spec.Paused = true },
			reason:     "DeploymentPaused", releaseDeployment: func(d deployment) { d.Spec.Paused = false },
		},
		"of a Deployment that is recreated": {
			deployment: func(d deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			},
			reason: "RolloutNeedsOutage", releaseScaler: func(s scaler) { s.Spec.Behavior.Rollout.AllowOutage = true },
		},
		"of a single pod without surge": {
			deployment: func(d deployment) { d.Spec.Replicas, d.Spec.Strategy = new(int32(1)), rolling(0, 1) },
			reason:     "RolloutNeedsOutage", releaseDeployment: func(d deployment) { d.Spec.Strategy = rolling(1, 0) },
		},
		"of a Deployment that is being rolled out": {
			deployment: func(d deployment) {
				d.Spec.MinReadySeconds, d.Spec.Template.Spec.Containers[0].Image = 500, "example.com/other:2"
			},
			reason: "RolloutInProgress", releaseDeployment: func(d deployment) { d.Spec.MinReadySeconds = 0 },
		},
		"of a Deployment that was just rolled out": {
			deployment: func(d deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.com/other:2" },
			scaler:     func(s scaler) { cooldown(s, 3600) },
			reason:     "RolloutCooldown",
			releaseScaler: func(s scaler) { // No event tells that the time has come.
				cooldown(s, int(time.Since(s.CreationTimestamp.Time).Seconds())+5)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			d := create(t, newChartedDeployment(namespace, 2, "Infeasible"))
			settles(t, d)
			edit(t, d, c.deployment)
			scaler := newPromptScaler(namespace, "web")
			if c.scaler != nil {
				c.scaler(scaler)
			}
			create(t, scaler)

			becomesApplied(t, scaler, metav1.ConditionFalse, c.reason)

			running := names(podsIn(t, namespace))
			readsUsage(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			assert.Zero(t, writtenForScalers(t, namespace, "deployments"))
			assert.Equal(t, running, names(podsIn(t, namespace)))
			if c.releaseDeployment != nil {
				edit(t, d, c.releaseDeployment)
			}
			if c.releaseScaler != nil {
				edit(t, scaler, c.releaseScaler)
			}
			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			runsResources(t, d, sized, int(*refresh(t, d).Spec.Replicas))
			assert.Equal(t, 1, writtenForScalers(t, namespace, "deployments"))
		})
	}
}

// A PodDisruptionBudget says nothing of rollouts; what bounds them is the Deployment's strategy.
func TestARolloutStaysWithinTheStrategyAndComesOnceHoweverManyEventsThereAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ replicas, least int32 }{
		"of four pods, a quarter of which may be away": {4, 3},
		"of a single pod, which is replaced first":     {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			d := create(t, newChartedDeployment(namespace, c.replicas, "Infeasible"))
			create(t, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
				Spec: policyv1.PodDisruptionBudgetSpec{
					Selector: d.Spec.Selector, MaxUnavailable: new(intstr.FromInt(0)),
				},
			})
			settles(t, d)
			deployments := startWatch(t, &appsv1.DeploymentList{}, namespace)
			scaler := create(t, newPromptScaler(namespace, "web"))
			least, touched := c.replicas, 0

			await(t, deployments, func(e watch.Event) bool {
				seen, ok := e.Object.(*appsv1.Deployment)
				require.True(t, ok)
				status := &seen.Status
				least = min(least, status.AvailableReplicas)
				// More events, of it and of the scaler, than it takes anyway.
				if isUnderWay := seen.Generation > 1; isUnderWay && touched < 20 {
					touched++
					edit(t, seen, func(d *appsv1.Deployment) {
						metav1.SetMetaDataAnnotation(&d.ObjectMeta, "touched", strconv.Itoa(touched))
					})
					edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) {
						metav1.SetMetaDataAnnotation(&s.ObjectMeta, "touched", strconv.Itoa(touched))
					})
				}
				return seen.Generation > 1 && status.ObservedGeneration == seen.Generation && touched == 20 &&
					status.Replicas == c.replicas && status.UpdatedReplicas == c.replicas && status.AvailableReplicas == c.replicas
			})

			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			runsResources(t, d, sized, int(c.replicas))
			assert.GreaterOrEqual(t, least, c.least, "available")
			assert.Len(t, replicaSetsOf(t, namespace), 2)
			assert.Equal(t, 1, writtenForScalers(t, namespace, "deployments"))
		})
	}
}
