package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
)

// newStuckShop returns a shop whose pods have neither requests nor limits, and so cannot be
// given any while they run. Its Deployment has been rolled out.
func newStuckShop(t *testing.T, pods int, change ...func(*shop)) *shop {
	t.Helper()
	s := newShop(t, pods, []corev1.Container{sells("web", nil, nil)}, change...)
	rollOut(t, deployment(t, s.namespace, "web"))
	return s
}

// rolledOut waits until a shop's Deployment has been rolled out by its scaler.
func (s *shop) rolledOut(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := deployment(t, s.namespace, "web")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotEmpty(c, refresh(c, d).Spec.Template.Annotations[sizing.AnnotationRestartedAt])
	}, soon, often)
	return d
}

// neverRollsOut asserts that a shop's scaler writes no Deployment for a while, and nothing
// about one in the end.
func (s *shop) neverRollsOut(t *testing.T) {
	t.Helper()
	assert.Never(t, func() bool { return len(s.wrote.to("/deployments")) > 0 }, aWhile, often)
	assert.Zero(t, s.resizes())
}

func TestARolloutSetsOneAnnotationAndOwnsNothingElse(t *testing.T) {
	t.Parallel()
	s := newStuckShop(t, 2)
	before := deployment(t, s.namespace, "web")
	s.open(t)
	d := s.rolledOut(t)
	at, err := time.Parse(time.RFC3339, d.Spec.Template.Annotations[sizing.AnnotationRestartedAt])
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), at, time.Minute)
	s.applied(t, isFalse, "RolloutInProgress")

	owned := 0
	for _, fields := range d.ManagedFields {
		if strings.Contains(fields.Manager, "upright") {
			owned++
			assert.Equal(t, "upright-verticalscaler", fields.Manager)
			assert.Equal(t, metav1.ManagedFieldsOperationApply, fields.Operation)
			assert.JSONEq(t, `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:`+sizing.AnnotationRestartedAt+`":{}}}}}}`, fields.FieldsV1.GetRawString())
		}
	}
	assert.Equal(t, 1, owned)
	d.Spec.Template.Annotations = nil
	assert.Equal(t, before.Spec, d.Spec)
	assert.Equal(t, before.Labels, d.Labels)
	assert.Empty(t, d.OwnerReferences)
	assert.InDelta(t, 1, value(t, s.manager, "upright_rollouts_total", "QoSClassFixed"), 0)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 1, told(c, s.scaler)["RolledOut"]) }, soon, often)
	assert.InDelta(t, 0, value(t, s.manager, "upright_refusals_total", "QoSClassFixed"), 0, "nobody has to do anything")
}

func TestOneChangeIsOneRolloutHoweverManyEventsThereAre(t *testing.T) {
	t.Parallel()
	s := newStuckShop(t, 3).open(t)
	d := s.rolledOut(t)
	for i, pod := range s.pods { // One pod after the other is replaced.
		edit(t, d, func(d *appsv1.Deployment) { d.Labels["seen"] = pod.Name })
		reborn := s.newcomer(sells("web", nil, nil))
		reborn.Labels["pod-template-hash"], reborn.OwnerReferences[0].Name = "new", "web-new"
		s.born(t, reborn, large, nil)
		create(t, reborn)
		runs(t, reborn)
		remove(t, pod)
		d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, int32(i)
		require.NoError(t, env.Client.Status().Update(t.Context(), d))
		refresh(t, d)
	}
	rollOut(t, d)
	s.applied(t, isTrue, "Sized")
	assert.Never(t, func() bool { return len(s.wrote.to("/deployments")) > 1 }, aWhile, often)
	assert.Len(t, s.wrote.to("/deployments"), 1)
	assert.Zero(t, s.resizes())
}

func TestARolloutIsHeldBackAndAppliedSaysWhy(t *testing.T) {
	t.Parallel()
	for reason, test := range map[string]struct {
		scaler     func(*autoscalingv1beta1.VerticalScalerSpec)
		deployment func(*appsv1.Deployment)
		pods       int
		// release is what lets the rollout go ahead; nil where that takes time or is another test.
		release func(*testing.T, *shop)
	}{
		"DeploymentPaused": {
			deployment: func(d *appsv1.Deployment) { d.Spec.Paused = true },
			release: func(t *testing.T, s *shop) {
				edit(t, deployment(t, s.namespace, "web"), func(d *appsv1.Deployment) { d.Spec.Paused = false })
				rollOut(t, deployment(t, s.namespace, "web"))
			},
		},
		"RolloutNeedsOutage": {
			deployment: func(d *appsv1.Deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			},
			release: func(t *testing.T, s *shop) {
				s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior.Rollout.AllowOutage = true })
			},
		},
		"RolloutCooldown": {
			scaler: func(spec *autoscalingv1beta1.VerticalScalerSpec) {
				spec.Behavior.Rollout.CooldownSeconds = new(int32(3600))
			},
			deployment: func(d *appsv1.Deployment) {
				d.Spec.Template.Annotations = map[string]string{sizing.AnnotationRestartedAt: time.Now().Add(-time.Minute).Format(time.RFC3339)}
			},
		},
		"RolloutInProgress": {
			deployment: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) },
			release: func(t *testing.T, s *shop) {
				d := deployment(t, s.namespace, "web")
				d.Spec.Replicas = new(int32(3))
				rollOut(t, d)
			},
		},
		"QoSClassFixed": {
			scaler: func(spec *autoscalingv1beta1.VerticalScalerSpec) {
				spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace
			},
			release: func(t *testing.T, s *shop) {
				s.asks(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
					spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout
				})
			},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 1, []corev1.Container{sells("web", nil, nil)}, func(s *shop) {
				if test.scaler != nil {
					test.scaler(&s.scaler.Spec)
				}
			})
			d := deployment(t, s.namespace, "web")
			if test.deployment != nil {
				edit(t, d, test.deployment)
			}
			rollOut(t, d)
			if reason == "RolloutInProgress" {
				d.Status.UpdatedReplicas = 1
				require.NoError(t, env.Client.Status().Update(t.Context(), d))
			}
			s.open(t)
			assert.Contains(t, s.applied(t, isFalse, reason), "1 of 1 pods")
			s.neverRollsOut(t)
			if test.release != nil {
				before := d.Spec.Template.Annotations[sizing.AnnotationRestartedAt]
				test.release(t, s)
				assert.NotEqual(t, before, s.rolledOut(t).Spec.Template.Annotations[sizing.AnnotationRestartedAt])
			}
		})
	}
}
