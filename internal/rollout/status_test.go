package rollout

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

// available returns a Deployment whose status says that all its replicas are available.
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

// having returns an available Deployment of two replicas, changed.
func having(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := available(2)
	change(d)
	return d
}

// lost is a Deployment one of whose replicas has become unavailable.
func lost() *appsv1.Deployment {
	return having(func(d *appsv1.Deployment) {
		d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1
		setCondition(d, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")
	})
}

// rolling is a Deployment in the midst of its rollout.
func rolling() *appsv1.Deployment {
	return having(func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 3, 1, 2
		setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")
	})
}

func seen(d *appsv1.Deployment) Observation {
	return Observation{Generation: generation, Deployment: d, Now: now}
}

func failed(err error) Observation {
	return Observation{Generation: generation, Err: err, Now: now}
}

// completed is the status of an owner whose spec of a generation was rolled out a while ago.
func completed(generation int64) examplev1alpha1.DeploymentStatus {
	status, _ := Status(examplev1alpha1.DeploymentStatus{}, Observation{
		Generation: generation, Deployment: available(2), Now: now.Add(-time.Hour),
	})
	return status
}

func TestStatusSaysWhatTheDeploymentIs(t *testing.T) {
	t.Parallel()
	type says struct {
		ready       bool
		reason      string // Of Ready and of Available.
		progressing bool
		progress    string // Reason of Progressing.
		degraded    bool
		message     string // Part of Ready's.
	}
	inProgress := says{reason: "RolloutInProgress", progressing: true, progress: "RolloutInProgress", message: "Waiting for the Deployment"}
	ready := says{ready: true, reason: "AsExpected", progress: "RolloutComplete", message: "All replicas are up to date and available."}
	unavailable := says{reason: "ReplicasUnavailable", progress: "RolloutComplete", degraded: true, message: "kubectl describe pods"}
	refusedPods := says{reason: "PodsRefused", progress: "PodsRefused", degraded: true, message: "kubectl describe replicasets"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "box",
		field.ErrorList{field.Required(field.NewPath("spec", "template"), "a Deployment has pods")})
	var fresh examplev1alpha1.DeploymentStatus

	for name, test := range map[string]struct {
		before examplev1alpha1.DeploymentStatus
		seen   Observation
		want   says
	}{
		"name taken by somebody's": {fresh, failed(&NameTakenError{
			Deployment: "box", Controller: &metav1.OwnerReference{Kind: "Web", Name: "shop"},
		}), says{reason: "DeploymentNameTaken", progress: "DeploymentNameTaken", degraded: true, message: `"box" exists and belongs to Web "shop"`}},
		"name taken by nobody's": {fresh, failed(fmt.Errorf("ensure: %w", &NameTakenError{Deployment: "box"})),
			says{reason: "DeploymentNameTaken", progress: "DeploymentNameTaken", degraded: true, message: "Delete it or choose another name"}},
		"refused": {fresh, failed(fmt.Errorf("apply: %w", invalid)),
			says{reason: "DeploymentRefused", progress: "DeploymentRefused", degraded: true, message: "change the spec"}},
		"apply failed": {fresh, failed(errors.New("no route")),
			says{reason: "ApplyFailed", progressing: true, progress: "ApplyFailed", degraded: true, message: "it is tried again: no route"}},
		"apply failed over an available Deployment": {completed(generation),
			Observation{Generation: generation, Deployment: available(2), Err: errors.New("no route"), Now: now},
			says{reason: "ApplyFailed", progressing: true, progress: "ApplyFailed", degraded: true, message: "no route"}},
		"being deleted": {completed(generation), seen(having(func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: now} })),
			says{reason: "DeploymentTerminating", progressing: true, progress: "DeploymentTerminating", message: "created anew"}},
		"status of an older generation": {completed(generation), seen(having(func(d *appsv1.Deployment) { d.Generation = 8 })), inProgress},
		"no status yet":                 {fresh, seen(having(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} })), inProgress},
		"pods refused": {fresh, seen(having(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate")
		})), refusedPods},
		"pods no longer refused": {fresh, seen(having(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentReplicaFailure, corev1.ConditionFalse, "")
		})), ready},
		"complete":       {fresh, seen(available(2)), ready},
		"complete still": {completed(generation), seen(available(2)), ready},
		"size 0":         {fresh, seen(available(0)), ready},
		"size 0, old pods still there": {fresh, seen(having(func(d *appsv1.Deployment) {
			*d.Spec.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 0, 0, 0
		})), inProgress},
		"all counts right but not available": {fresh, seen(having(func(d *appsv1.Deployment) {
			setCondition(d, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable")
		})), inProgress},
		"an old pod too many": {fresh, seen(having(func(d *appsv1.Deployment) { d.Status.Replicas = 3 })), inProgress},
		"a pod out of date":   {fresh, seen(having(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 })), inProgress},
		"in progress":         {fresh, seen(rolling()), inProgress},
		"in progress anew":    {completed(generation - 1), seen(rolling()), inProgress},
		"progress deadline exceeded": {fresh, seen(having(func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 0
			setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")
		})), says{reason: "ProgressDeadlineExceeded", progress: "ProgressDeadlineExceeded", degraded: true, message: "kubectl describe pods"}},
		"replicas lost after completion":                   {completed(generation), seen(lost()), unavailable},
		"replicas short before completion":                 {fresh, seen(lost()), inProgress},
		"replicas short of a generation not yet completed": {completed(generation - 1), seen(lost()), inProgress},
		"replicas lost while the Deployment rolls out": {completed(generation), seen(having(func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 1
			setCondition(d, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated")
		})), inProgress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, _ := Status(test.before, test.seen)
			condition := func(conditionType string, is bool, reason string) *metav1.Condition {
				t.Helper()
				found := meta.FindStatusCondition(status.Conditions, conditionType)
				require.NotNil(t, found, conditionType)
				assert.Equal(t, is, found.Status == metav1.ConditionTrue, "%s: %s", conditionType, found.Message)
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

func TestStatusHasTheDeploymentsCountsAndSelector(t *testing.T) {
	t.Parallel()
	status, again := Status(completed(generation), seen(lost()))
	assert.Equal(t, int32(2), status.Replicas)
	assert.Equal(t, int32(1), status.AvailableReplicas)
	assert.Equal(t, "app=box", status.Selector)
	assert.Zero(t, again)

	status, _ = Status(status, failed(&NameTakenError{Deployment: "box"}))
	assert.Zero(t, status.Replicas, "the pods of somebody else's Deployment")
	assert.Empty(t, status.Selector)
}

func TestStatusLeavesThePreviousOneUnchanged(t *testing.T) {
	t.Parallel()
	previous := completed(generation)
	before := previous.DeepCopy()
	Status(previous, seen(lost()))
	assert.Equal(t, *before, previous)
}

func TestTransitionTimesChangeOnlyWhenAStatusChanges(t *testing.T) {
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

	// Terminating is another reason and message, but Ready is False and Progressing True as before.
	terminating := rolling()
	terminating.DeletionTimestamp = &metav1.Time{Time: later}
	status, _ = Status(status, at(terminating, later))
	assert.Equal(t, "DeploymentTerminating", meta.FindStatusCondition(status.Conditions, "Ready").Reason)
	assert.Equal(t, map[string]time.Time{"Ready": then, "Available": then, "Progressing": then, "Degraded": then}, times(status))

	status, _ = Status(status, at(available(2), latest))
	assert.Equal(t, map[string]time.Time{"Ready": latest, "Available": latest, "Progressing": latest, "Degraded": then}, times(status))
}

func TestCountsAreHeldBackInTheFirstMinuteOfARolloutAndPublishedAfterIt(t *testing.T) {
	t.Parallel()
	status, again := Status(examplev1alpha1.DeploymentStatus{}, Observation{
		Generation: generation, Deployment: having(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }), Now: now,
	})
	assert.Zero(t, again)
	first := status

	grown := rolling()
	for _, passed := range []time.Duration{0, time.Second, 59 * time.Second} {
		status, again = Status(status, Observation{Generation: generation, Deployment: grown, Now: now.Add(passed)})
		assert.Equal(t, first, status, "nothing to write after %s", passed)
		assert.Equal(t, time.Minute-passed, again, "to be looked at again after %s", passed)
	}
	status, again = Status(status, Observation{Generation: generation, Deployment: grown, Now: now.Add(time.Minute)})
	assert.Equal(t, int32(3), status.Replicas)
	assert.Equal(t, int32(2), status.AvailableReplicas)
	assert.Zero(t, again)
}

func TestCountsOfAQuickRolloutArePublishedWithItsEnd(t *testing.T) {
	t.Parallel()
	status, _ := Status(examplev1alpha1.DeploymentStatus{}, seen(having(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} })))
	status, _ = Status(status, seen(rolling()))
	status, again := Status(status, seen(available(2)))
	assert.Equal(t, int32(2), status.Replicas)
	assert.Equal(t, int32(2), status.AvailableReplicas)
	assert.Zero(t, again)
}

func TestIsNameTakenSeesAWrappedError(t *testing.T) {
	t.Parallel()
	assert.True(t, IsNameTaken(fmt.Errorf("pass: %w", &NameTakenError{Deployment: "box"})))
	assert.False(t, IsNameTaken(errors.New("other")))
	assert.False(t, IsNameTaken(nil))
}
