package ownedstatus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

const generation = 3

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// available returns a Deployment with all its replicas available.
func available(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "box", Generation: 7},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "box"}},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 7,
			Replicas:           replicas,
			UpdatedReplicas:    replicas,
			ReadyReplicas:      replicas,
			AvailableReplicas:  replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		},
	}
}

// setCondition sets a condition of the Deployment.
func setCondition(d *appsv1.Deployment, conditionType appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == conditionType {
			d.Status.Conditions[i].Status, d.Status.Conditions[i].Reason = status, reason
			return
		}
	}
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: conditionType, Status: status, Reason: reason})
}

// changed returns an available Deployment of two replicas after a change.
func changed(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := available(2)
	change(d)
	return d
}

// withLostReplica returns a Deployment with an unavailable replica.
func withLostReplica() *appsv1.Deployment {
	return changed(func(d *appsv1.Deployment) {
		d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1
		setCondition(d, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")
	})
}

// rolling returns a Deployment in the middle of a rollout.
func rolling() *appsv1.Deployment {
	return changed(func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 3, 1, 2
		setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")
	})
}

func observed(d *appsv1.Deployment) Observation {
	return Observation{Generation: generation, Deployment: d, Now: now}
}

func failed(err error) Observation {
	return Observation{Generation: generation, Err: err, Now: now}
}

// completed returns the status of an owner whose rollout of a generation ended an hour ago.
func completed(generation int64) examplev1alpha1.DeploymentStatus {
	status, _ := Status(examplev1alpha1.DeploymentStatus{}, Observation{
		Generation: generation, Deployment: available(2), Now: now.Add(-time.Hour),
	})
	return status
}

func TestConditionsReflectDeploymentStatus(t *testing.T) {
	t.Parallel()
	type expected struct {
		ready       bool
		reason      string // Of Ready and Available.
		progressing bool
		progress    string // Reason of Progressing.
		degraded    bool
		message     string // Part of the message of Ready.
	}
	inProgress := expected{reason: "RolloutInProgress", progressing: true, progress: "RolloutInProgress", message: "Waiting for the Deployment"}
	ready := expected{ready: true, reason: "AsExpected", progress: "RolloutComplete", message: "All replicas are up to date and available."}
	unavailable := expected{reason: "ReplicasUnavailable", progress: "RolloutComplete", degraded: true, message: "kubectl describe pods"}
	refusedPods := expected{reason: "PodsRefused", progress: "PodsRefused", degraded: true, message: "kubectl describe replicasets"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "box",
		field.ErrorList{field.Required(field.NewPath("spec", "template"), "a Deployment has pods")})
	var fresh examplev1alpha1.DeploymentStatus

	for name, test := range map[string]struct {
		previous examplev1alpha1.DeploymentStatus
		observed Observation
		want     expected
	}{
		"name taken, other controller": {fresh, failed(&NameTakenError{
			Deployment: "box", Controller: &metav1.OwnerReference{Kind: "Web", Name: "web"},
		}), expected{reason: "DeploymentNameTaken", progress: "DeploymentNameTaken", degraded: true, message: `"box" exists and belongs to Web "web"`}},
		"name taken, no controller": {fresh, failed(fmt.Errorf("ensure: %w", &NameTakenError{Deployment: "box"})),
			expected{reason: "DeploymentNameTaken", progress: "DeploymentNameTaken", degraded: true, message: "Delete it or choose another name"}},
		"refused": {fresh, failed(fmt.Errorf("apply: %w", invalid)),
			expected{reason: "DeploymentRefused", progress: "DeploymentRefused", degraded: true, message: "Change the spec"}},
		"apply failed": {fresh, failed(errors.New("no route")),
			expected{reason: "ApplyFailed", progressing: true, progress: "ApplyFailed", degraded: true, message: "Cannot reconcile the Deployment (see the manager's log). The controller retries."}},
		"apply failed, Deployment available": {completed(generation),
			Observation{Generation: generation, Deployment: available(2), Err: errors.New("no route"), Now: now},
			expected{reason: "ApplyFailed", progressing: true, progress: "ApplyFailed", degraded: true, message: "The controller retries."}},
		"being deleted": {completed(generation), observed(changed(func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: now} })),
			expected{reason: "DeploymentTerminating", progressing: true, progress: "DeploymentTerminating", message: "re-created"}},
		"status of an older generation": {completed(generation), observed(changed(func(d *appsv1.Deployment) { d.Generation = 8 })), inProgress},
		"no status yet":                 {fresh, observed(changed(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} })), inProgress},
		"pods refused": {fresh, observed(changed(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
		})), refusedPods},
		"pods no longer refused": {fresh, observed(changed(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentReplicaFailure, corev1.ConditionFalse, "")
		})), ready},
		"complete":       {fresh, observed(available(2)), ready},
		"still complete": {completed(generation), observed(available(2)), ready},
		"size 0":         {fresh, observed(available(0)), ready},
		"size 0, old pods still exist": {fresh, observed(changed(func(d *appsv1.Deployment) {
			*d.Spec.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 0, 0, 0
		})), inProgress},
		"right counts, not available": {fresh, observed(changed(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable")
		})), inProgress},
		"old pod still exists":                    {fresh, observed(changed(func(d *appsv1.Deployment) { d.Status.Replicas = 3 })), inProgress},
		"pod of the old template":                 {fresh, observed(changed(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 })), inProgress},
		"in progress":                             {fresh, observed(rolling()), inProgress},
		"in progress after an earlier completion": {completed(generation - 1), observed(rolling()), inProgress},
		"progress deadline exceeded": {fresh, observed(changed(func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 0
			setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
		})), expected{reason: "ProgressDeadlineExceeded", progress: "ProgressDeadlineExceeded", degraded: true, message: "kubectl describe pods"}},
		"replica lost after completion":                           {completed(generation), observed(withLostReplica()), unavailable},
		"replica missing before completion":                       {fresh, observed(withLostReplica()), inProgress},
		"replica missing, only the previous generation completed": {completed(generation - 1), observed(withLostReplica()), inProgress},
		"replica lost during a rollout": {completed(generation), observed(changed(func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 1
			setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")
		})), inProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, _ := Status(test.previous, test.observed)
			condition := func(conditionType string, isTrue bool, reason string) *metav1.Condition {
				t.Helper()
				found := meta.FindStatusCondition(status.Conditions, conditionType)
				require.NotNil(t, found, conditionType)
				assert.Equal(t, isTrue, found.Status == metav1.ConditionTrue, "%s: %s", conditionType, found.Message)
				assert.Equal(t, reason, found.Reason, conditionType)
				assert.EqualValues(t, generation, found.ObservedGeneration, conditionType)
				assert.NotEmpty(t, found.Message, conditionType)
				return found
			}
			degraded := "AsExpected"
			if test.want.degraded {
				degraded = test.want.reason
			}
			assert.Contains(t, condition("Ready", test.want.ready, test.want.reason).Message, test.want.message)
			condition("Available", test.want.ready, test.want.reason)
			condition("Progressing", test.want.progressing, test.want.progress)
			condition("Degraded", test.want.degraded, degraded)
			assert.EqualValues(t, generation, status.ObservedGeneration)
		})
	}
}

func TestMessageIsTheSameForRepeatedErrors(t *testing.T) {
	t.Parallel()
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	quota := func(used int) error {
		return fmt.Errorf("apply: %w", apierrors.NewForbidden(deployments, "box",
			fmt.Errorf("exceeded quota: none, requested: count/deployments.apps=1, used: count/deployments.apps=%d", used)))
	}
	policy := func(int) error {
		err := apierrors.NewInvalid(schema.GroupKind{}, "box", nil) // A policy's error names no field.
		err.ErrStatus.Message = "denied request: the image has no digest"
		return fmt.Errorf("apply: %w", err)
	}
	for name, test := range map[string]struct {
		err  func(attempt int) error
		want string
	}{
		"lost connection": {func(port int) error { return fmt.Errorf("read tcp 127.0.0.1:%d: connection reset", port) }, "(see the manager's log)"},
		"API server failed": {func(stream int) error {
			return apierrors.NewInternalError(fmt.Errorf("stream %d", stream))
		}, "(InternalError)"},
		"quota":  {quota, "exceeded quota: none)"},
		"policy": {policy, "the image has no digest)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _ := Status(examplev1alpha1.DeploymentStatus{}, failed(test.err(1)))
			assert.Contains(t, meta.FindStatusCondition(first.Conditions, "Ready").Message, test.want)
			second, _ := Status(first, failed(test.err(2)))
			assert.Equal(t, first, second)
		})
	}
}

func TestStatusHasCountsAndSelectorOfDeployment(t *testing.T) {
	t.Parallel()
	status, requeueAfter := Status(completed(generation), observed(withLostReplica()))
	assert.Equal(t, int32(2), status.Replicas)
	assert.Equal(t, int32(1), status.AvailableReplicas)
	assert.Equal(t, "app=box", status.Selector)
	assert.Zero(t, requeueAfter)

	status, _ = Status(status, failed(&NameTakenError{Deployment: "box"}))
	assert.Zero(t, status.Replicas, "the Deployment has another owner")
	assert.Empty(t, status.Selector)
}

func TestStatusDoesNotModifyPreviousStatus(t *testing.T) {
	t.Parallel()
	previous := completed(generation)
	before := previous.DeepCopy()
	Status(previous, observed(withLostReplica()))
	assert.Equal(t, *before, previous)
}

func TestTransitionTimesChangeOnlyWithConditionStatus(t *testing.T) {
	t.Parallel()
	then, later, latest := now, now.Add(time.Second), now.Add(2*time.Second)
	at := func(d *appsv1.Deployment, now time.Time) Observation {
		return Observation{Generation: generation, Deployment: d, Now: now}
	}
	times := func(s examplev1alpha1.DeploymentStatus) map[string]time.Time {
		times := map[string]time.Time{}
		for _, condition := range s.Conditions {
			times[condition.Type] = condition.LastTransitionTime.Time
		}
		return times
	}

	status, _ := Status(examplev1alpha1.DeploymentStatus{}, at(rolling(), then))
	assert.Equal(t, map[string]time.Time{"Ready": then, "Available": then, "Progressing": then, "Degraded": then}, times(status))

	status, _ = Status(status, at(rolling(), later))
	assert.Equal(t, map[string]time.Time{"Ready": then, "Available": then, "Progressing": then, "Degraded": then}, times(status))

	// Terminating changes the reason and the message, but Ready stays False and Progressing True.
	terminating := rolling()
	terminating.DeletionTimestamp = &metav1.Time{Time: later}
	status, _ = Status(status, at(terminating, later))
	assert.Equal(t, "DeploymentTerminating", meta.FindStatusCondition(status.Conditions, "Ready").Reason)
	assert.Equal(t, map[string]time.Time{"Ready": then, "Available": then, "Progressing": then, "Degraded": then}, times(status))

	status, _ = Status(status, at(available(2), latest))
	assert.Equal(t, map[string]time.Time{"Ready": latest, "Available": latest, "Progressing": latest, "Degraded": then}, times(status))
}

func TestCountsAreDelayedInFirstMinuteOfRollout(t *testing.T) {
	t.Parallel()
	status, requeueAfter := Status(examplev1alpha1.DeploymentStatus{}, Observation{
		Generation: generation, Deployment: changed(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }), Now: now,
	})
	assert.Zero(t, requeueAfter)
	first := status

	inRollout := rolling()
	for _, passed := range []time.Duration{0, time.Second, 59 * time.Second} {
		status, requeueAfter = Status(status, Observation{Generation: generation, Deployment: inRollout, Now: now.Add(passed)})
		assert.Equal(t, first, status, "no status write after %s", passed)
		assert.Equal(t, time.Minute-passed, requeueAfter, "requeue after %s", passed)
	}
	status, requeueAfter = Status(status, Observation{Generation: generation, Deployment: inRollout, Now: now.Add(time.Minute)})
	assert.Equal(t, int32(3), status.Replicas)
	assert.Equal(t, int32(2), status.AvailableReplicas)
	assert.Zero(t, requeueAfter)
}

func TestCountsOfShortRolloutArePublishedAtItsEnd(t *testing.T) {
	t.Parallel()
	status, _ := Status(examplev1alpha1.DeploymentStatus{}, observed(changed(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} })))
	status, _ = Status(status, observed(rolling()))
	status, requeueAfter := Status(status, observed(available(2)))
	assert.Equal(t, int32(2), status.Replicas)
	assert.Equal(t, int32(2), status.AvailableReplicas)
	assert.Zero(t, requeueAfter)
}

func TestIsNameTakenUnwrapsErrors(t *testing.T) {
	t.Parallel()
	assert.True(t, IsNameTaken(fmt.Errorf("reconcile: %w", &NameTakenError{Deployment: "box"})))
	assert.False(t, IsNameTaken(errors.New("other")))
	assert.False(t, IsNameTaken(nil))
}
