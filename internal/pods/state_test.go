package pods_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/internal/pods"
)

var start = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// newPod returns a pod that was created a number of seconds after start.
func newPod(name string, seconds int, phase corev1.PodPhase, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))},
		Status:     corev1.PodStatus{Phase: phase},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: start} }

// ofTemplate sets the hash that the Deployment controller computes from the pod template.
func ofTemplate(hash string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash} }
}

func withCondition(conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: conditionType, Status: status, Reason: reason})
	}
}

var unschedulable = withCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)

func namesOf(list []*corev1.Pod) []string {
	var names []string
	for _, pod := range list {
		names = append(names, pod.Name)
	}
	return names
}

func TestRunningReturnsRunningPodsSortedByName(t *testing.T) {
	t.Parallel()
	list := []corev1.Pod{
		newPod("c", 0, corev1.PodRunning),
		newPod("pending", 1, corev1.PodPending),
		newPod("a", 2, corev1.PodRunning),
		newPod("deleted", 3, corev1.PodRunning, deleted),
		newPod("succeeded", 4, corev1.PodSucceeded),
		newPod("failed", 5, corev1.PodFailed),
		newPod("b", 6, corev1.PodRunning, withCondition(corev1.PodReady, corev1.ConditionFalse, "")),
		newPod("unknown", 7, corev1.PodUnknown),
	}
	running := pods.Running(list)
	assert.Equal(t, []string{"a", "b", "c"}, namesOf(running))
	assert.Same(t, &list[2], running[0], "a pod of the list, not a copy")
	assert.Equal(t, "c", list[0].Name, "the list must not change")
	assert.Empty(t, pods.Running(nil))
}

func TestIsReadyTreatsMissingConditionAsReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"running, no condition":    {newPod("a", 0, corev1.PodRunning), true},
		"running, Ready":           {newPod("a", 0, corev1.PodRunning, withCondition(corev1.PodReady, corev1.ConditionTrue, "")), true},
		"running, not Ready":       {newPod("a", 0, corev1.PodRunning, withCondition(corev1.PodReady, corev1.ConditionFalse, "")), false},
		"running, Ready unknown":   {newPod("a", 0, corev1.PodRunning, withCondition(corev1.PodReady, corev1.ConditionUnknown, "")), false},
		"running, other condition": {newPod("a", 0, corev1.PodRunning, withCondition(corev1.PodResizePending, corev1.ConditionFalse, "")), true},
		"running, other and not Ready": {newPod("a", 0, corev1.PodRunning,
			withCondition(corev1.PodScheduled, corev1.ConditionTrue, ""), withCondition(corev1.PodReady, corev1.ConditionFalse, "")), false},
		"pending, no condition":   {newPod("a", 0, corev1.PodPending), false},
		"succeeded, no condition": {newPod("a", 0, corev1.PodSucceeded), false},
		"failed, no condition":    {newPod("a", 0, corev1.PodFailed), false},
	} {
		assert.Equal(t, test.want, pods.IsReady(&test.pod), name)
	}
}

func TestNewestSkipsEndedAndDeletedPods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"one pod":         {[]corev1.Pod{newPod("a", 0, corev1.PodRunning)}, "a"},
		"newer pod":       {[]corev1.Pod{newPod("b", 0, corev1.PodRunning), newPod("a", 1, corev1.PodRunning)}, "a"},
		"pending pod":     {[]corev1.Pod{newPod("b", 0, corev1.PodRunning), newPod("a", 1, corev1.PodPending)}, "a"},
		"same second":     {[]corev1.Pod{newPod("a", 0, corev1.PodRunning), newPod("c", 0, corev1.PodRunning), newPod("b", 0, corev1.PodRunning)}, "c"},
		"newer succeeded": {[]corev1.Pod{newPod("a", 0, corev1.PodRunning), newPod("b", 1, corev1.PodSucceeded)}, "a"},
		"newer failed":    {[]corev1.Pod{newPod("a", 0, corev1.PodRunning), newPod("b", 1, corev1.PodFailed)}, "a"},
		"newer deleted":   {[]corev1.Pod{newPod("a", 0, corev1.PodRunning), newPod("b", 1, corev1.PodRunning, deleted)}, "a"},
		"all ended or deleted": {[]corev1.Pod{
			newPod("a", 0, corev1.PodSucceeded), newPod("b", 1, corev1.PodFailed), newPod("c", 2, corev1.PodRunning, deleted)}, ""},
		"no pods": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, list := range permutations(test.pods) {
				newest := pods.Newest(list)
				if test.want == "" {
					assert.Nil(t, newest)
					continue
				}
				require.NotNil(t, newest)
				assert.Equal(t, test.want, newest.Name, "order %v", list)
			}
		})
	}
}

// permutations returns the list in all orders.
func permutations(list []corev1.Pod) [][]corev1.Pod {
	if len(list) < 2 {
		return [][]corev1.Pod{list}
	}
	var all [][]corev1.Pod
	for i := range list {
		others := slices.Delete(slices.Clone(list), i, i+1)
		for _, rest := range permutations(others) {
			all = append(all, append([]corev1.Pod{list[i]}, rest...))
		}
	}
	return all
}

func TestUnschedulableReturnsPodsOfNewestTemplate(t *testing.T) {
	t.Parallel()
	gated := withCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated)
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"all scheduled": {pods: []corev1.Pod{newPod("a", 0, corev1.PodRunning, ofTemplate("1"))}},
		"two pods of the newest template": {
			pods: []corev1.Pod{
				newPod("a", 0, corev1.PodRunning, ofTemplate("1")),
				newPod("b", 1, corev1.PodPending, ofTemplate("1"), unschedulable),
				newPod("c", 2, corev1.PodPending, ofTemplate("1"), unschedulable),
			},
			want: []string{"b", "c"}},
		"older template": {
			pods: []corev1.Pod{
				newPod("a", 0, corev1.PodPending, ofTemplate("1"), unschedulable),
				newPod("b", 1, corev1.PodPending, ofTemplate("2"), unschedulable),
			},
			want: []string{"b"}},
		"older template, newest scheduled": {pods: []corev1.Pod{
			newPod("a", 0, corev1.PodPending, ofTemplate("1"), unschedulable),
			newPod("b", 1, corev1.PodRunning, ofTemplate("2")),
		}},
		"newest template deleted": {
			pods: []corev1.Pod{
				newPod("a", 0, corev1.PodPending, ofTemplate("1"), unschedulable),
				newPod("b", 1, corev1.PodPending, ofTemplate("2"), unschedulable, deleted),
			},
			want: []string{"a"}},
		"deleted pod": {
			pods: []corev1.Pod{
				newPod("a", 0, corev1.PodPending, ofTemplate("1"), unschedulable, deleted),
				newPod("b", 1, corev1.PodPending, ofTemplate("1"), unschedulable),
			},
			want: []string{"b"}},
		"ended pod, as the scheduler left it": {
			pods: []corev1.Pod{
				newPod("a", 0, corev1.PodFailed, ofTemplate("1"), unschedulable),
				newPod("b", 1, corev1.PodSucceeded, ofTemplate("1"), unschedulable),
				newPod("c", 2, corev1.PodPending, ofTemplate("1"), unschedulable),
			},
			want: []string{"c"}},
		"pod with a scheduling gate": {pods: []corev1.Pod{newPod("a", 0, corev1.PodPending, ofTemplate("1"), gated)}},
		"pods without a template hash": {
			pods: []corev1.Pod{newPod("a", 0, corev1.PodPending, unschedulable), newPod("b", 1, corev1.PodRunning)},
			want: []string{"a"}},
		"no pod alive": {pods: []corev1.Pod{
			newPod("a", 0, corev1.PodFailed, ofTemplate("1"), unschedulable),
			newPod("b", 1, corev1.PodSucceeded, ofTemplate("1")),
			newPod("c", 2, corev1.PodPending, ofTemplate("1"), unschedulable, deleted),
		}},
		"no pods": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, namesOf(pods.Unschedulable(test.pods)))
		})
	}
}

func TestUnschedulableConditionIsPodScheduledFalse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conditions []func(*corev1.Pod)
		want       bool
	}{
		"unschedulable":      {[]func(*corev1.Pod){unschedulable}, true},
		"after another":      {[]func(*corev1.Pod){withCondition(corev1.PodReady, corev1.ConditionFalse, ""), unschedulable}, true},
		"scheduled":          {[]func(*corev1.Pod){withCondition(corev1.PodScheduled, corev1.ConditionTrue, "")}, false},
		"scheduling gate":    {[]func(*corev1.Pod){withCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated)}, false},
		"not False any more": {[]func(*corev1.Pod){withCondition(corev1.PodScheduled, corev1.ConditionTrue, corev1.PodReasonUnschedulable)}, false},
		"other type":         {[]func(*corev1.Pod){withCondition(corev1.PodReady, corev1.ConditionFalse, corev1.PodReasonUnschedulable)}, false},
		"no conditions":      {nil, false},
	} {
		pod := newPod("a", 0, corev1.PodPending, test.conditions...)
		condition := pods.UnschedulableCondition(&pod)
		require.Equal(t, test.want, condition != nil, name)
		if test.want {
			assert.Equal(t, corev1.PodScheduled, condition.Type, name)
		}
	}
}
