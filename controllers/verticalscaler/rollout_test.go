package verticalscaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

// newUnresizableWorkload creates a workload whose pods cannot be resized, because they have
// neither requests nor limits. Its Deployment is available.
func newUnresizableWorkload(t *testing.T, environment *testenv.Environment, pods int) *workload {
	t.Helper()
	w := newWorkloadIn(t, environment, pods, []corev1.Container{newContainer("web", nil, nil)})
	testenv.MarkAvailable(t, environment, w.deployment(t))
	return w
}

// deployment returns the workload's Deployment.
func (w *workload) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return testenv.Refresh(t, w.env, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}})
}

// restartedAt returns the time of the Deployment's last rollout, as its template has it.
func restartedAt(d *appsv1.Deployment) string {
	return d.Spec.Template.Annotations[sizing.AnnotationRestartedAt]
}

// setRestartedAt sets the annotation that starts a rollout to a minute ago, as kubectl rollout
// restart does.
func setRestartedAt(t *testing.T, d *appsv1.Deployment, fieldManager string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`,
		sizing.AnnotationRestartedAt, time.Now().Add(-time.Minute).Format(time.RFC3339))
	require.NoError(t, env.Client.Patch(t.Context(), d,
		client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner(fieldManager)))
}

// waitForRollout waits until the Deployment has been rolled out again, and returns it.
func (w *workload) waitForRollout(t *testing.T, previous string) *appsv1.Deployment {
	t.Helper()
	d := w.deployment(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotEqual(c, previous, restartedAt(testenv.Refresh(c, w.env, d)))
	}, testenv.Timeout, testenv.Poll)
	return d
}

// assertNoRollout asserts that the manager writes no Deployment for a while, and has resized no
// pod.
func (w *workload) assertNoRollout(t *testing.T) {
	t.Helper()
	assert.Never(t, func() bool { return len(w.writes.To("/deployments")) > 0 }, testenv.Quiet, testenv.Poll)
	assert.Zero(t, w.resizes())
}

func TestRolloutSetsAndOwnsOneAnnotation(t *testing.T) {
	t.Parallel()
	w := newUnresizableWorkload(t, env, 2)
	before, start := w.deployment(t), time.Now().Truncate(time.Second)
	d := w.start(t).waitForRollout(t, "")
	at, err := time.Parse(time.RFC3339, restartedAt(d))
	require.NoError(t, err)
	assert.False(t, at.Before(start), "%s is before the test's start", at)
	assert.False(t, at.After(time.Now()), "%s is in the future", at)
	w.waitForApplied(t, isFalse, "RolloutInProgress")

	owned := 0
	for _, fields := range d.ManagedFields {
		if strings.Contains(fields.Manager, "upright") {
			owned++
			assert.Equal(t, "upright-verticalscaler", fields.Manager)
			assert.Equal(t, metav1.ManagedFieldsOperationApply, fields.Operation)
			assert.JSONEq(t, `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:`+sizing.AnnotationRestartedAt+`":{}}}}}}`,
				fields.FieldsV1.GetRawString())
		}
	}
	assert.Equal(t, 1, owned)
	d.Spec.Template.Annotations = nil
	assert.Equal(t, before.Spec, d.Spec)
	assert.Equal(t, before.Labels, d.Labels)
	assert.Empty(t, d.OwnerReferences)
	assert.InDelta(t, 1, w.manager.Value(t, "upright_rollouts_total", "QoSClassFixed"), 0)
	w.waitForEvent(t, "RolledOut")
	assert.InDelta(t, 0, w.manager.Value(t, "upright_refusals_total", "QoSClassFixed"), 0, "no user has to act")
}

func TestRolloutStartsAfterTheSizingIsPublished(t *testing.T) {
	t.Parallel()
	w := newUnresizableWorkload(t, env, 1).start(t)
	w.waitForRollout(t, "")
	writes := w.writes.All()
	status := slices.IndexFunc(writes, func(write string) bool { return strings.HasSuffix(write, "/verticalscalers/web/status") })
	rollout := slices.IndexFunc(writes, func(write string) bool { return strings.HasSuffix(write, "/deployments/web") })
	assert.GreaterOrEqual(t, status, 0)
	assert.Greater(t, rollout, status, "new pods get the published size")
}

func TestOneChangeCausesOneRollout(t *testing.T) {
	t.Parallel()
	w := newUnresizableWorkload(t, env, 3).start(t)
	d := w.waitForRollout(t, "")
	for i, pod := range w.pods { // Replace one pod after the other.
		testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Labels["changed"] = pod.Name })
		replacement := w.newPod(newContainer("web", nil, nil))
		replacement.Labels["pod-template-hash"], replacement.OwnerReferences[0].Name = "new", "web-new"
		w.waitForNewPod(t, replacement, large, nil)
		testenv.Create(t, env, replacement)
		testenv.RunPod(t, env, replacement)
		testenv.Delete(t, env, pod)
		d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, int32(i)
		require.NoError(t, env.Client.Status().Update(t.Context(), d))
		testenv.Refresh(t, env, d)
	}
	testenv.MarkAvailable(t, env, d)
	w.waitForApplied(t, isTrue, "Sized")
	w.waitForRolloutState(t, autoscalingv1beta1.RolloutEffective)
	assert.Never(t, func() bool { return len(w.writes.To("/deployments")) > 1 }, testenv.Quiet, testenv.Poll)
	assert.Len(t, w.writes.To("/deployments"), 1)
	assert.Zero(t, w.resizes())
}

func TestRolloutIsBlockedAndAppliedReportsWhy(t *testing.T) {
	t.Parallel()
	for reason, test := range map[string]struct {
		spec       func(*autoscalingv1beta1.VerticalScalerSpec)
		deployment func(*appsv1.Deployment)
		// restarted is true if a user has restarted the Deployment.
		restarted bool
		// unblock makes the rollout possible. It is nil if that takes time or is shown elsewhere.
		unblock func(*testing.T, *workload)
	}{
		"DeploymentPaused": {
			deployment: func(d *appsv1.Deployment) { d.Spec.Paused = true },
			unblock: func(t *testing.T, w *workload) {
				t.Helper()
				testenv.Edit(t, env, w.deployment(t), func(d *appsv1.Deployment) { d.Spec.Paused = false })
				testenv.MarkAvailable(t, env, w.deployment(t))
			},
		},
		"RolloutNeedsOutage": {
			deployment: func(d *appsv1.Deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			},
			unblock: func(t *testing.T, w *workload) {
				t.Helper()
				w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Behavior.Rollout.AllowOutage = true })
			},
		},
		"RolloutCooldown": {
			spec: func(spec *autoscalingv1beta1.VerticalScalerSpec) {
				spec.Behavior.Rollout.CooldownSeconds = new(int32(3600))
			},
			restarted: true,
		},
		"RolloutInProgress": {
			deployment: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) },
			unblock: func(t *testing.T, w *workload) {
				t.Helper()
				testenv.MarkAvailable(t, env, w.deployment(t))
			},
		},
		"QoSClassFixed": {
			spec: func(spec *autoscalingv1beta1.VerticalScalerSpec) {
				spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace
			},
			unblock: func(t *testing.T, w *workload) {
				t.Helper()
				w.setSpec(t, func(spec *autoscalingv1beta1.VerticalScalerSpec) {
					spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout
				})
			},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorkload(t, 1, []corev1.Container{newContainer("web", nil, nil)}, func(w *workload) {
				if test.spec != nil {
					test.spec(&w.scaler.Spec)
				}
			})
			d := w.deployment(t)
			if test.deployment != nil {
				testenv.Edit(t, env, d, test.deployment)
			}
			if test.restarted {
				setRestartedAt(t, d, "kubectl-rollout")
			}
			testenv.MarkAvailable(t, env, d)
			if reason == "RolloutInProgress" {
				d.Status.UpdatedReplicas = 1
				require.NoError(t, env.Client.Status().Update(t.Context(), d))
			}
			w.start(t)
			assert.Contains(t, w.waitForApplied(t, isFalse, reason), "1 of 1 pods")
			w.assertNoRollout(t)
			if test.unblock != nil {
				test.unblock(t, w)
				w.waitForRollout(t, restartedAt(d))
			}
		})
	}
}
