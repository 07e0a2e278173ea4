package e2e_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// The tests of this file measure how soon Upright answers, so they are not parallel. Each
// time is taken before a request is made and again when its consequence comes by a watch.

const (
	atOnce = time.Second
	rounds = 5
)

// delays are the measured times, by what was waited for.
type delays map[string][]time.Duration

func (d delays) add(what string, delay time.Duration) {
	d[what] = append(d[what], delay)
}

// check logs the times, and tolerates that some are long: others use this machine too.
func (d delays) check(t *testing.T) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(d)) {
		all := slices.Sorted(slices.Values(d[what]))
		require.Len(t, all, rounds)
		t.Logf("%-45s %4d ms (median), %4d ms (slowest)", what, all[rounds/2].Milliseconds(), all[rounds-1].Milliseconds())
		assert.Less(t, all[rounds/2], atOnce, what)
	}
}

func TestScalerSeesWhatBecomesOfItsTargetWithinASecond(t *testing.T) {
	const hold = "example.com/hold"
	delays := delays{}
	for range rounds {
		namespace := newNamespace(t)
		statuses := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, namespace)
		see := func(what, reason string, act func()) {
			start := time.Now()
			act()
			seen := await(t, statuses, func(e watch.Event) bool { return saysOfTarget(e, reason) })
			delays.add(what, seen.Sub(start))
		}
		scaler := newScaler(namespace, "scaler", "web")
		target := newDeployment(namespace, "web", 1)
		target.Finalizers = []string{hold}
		other := newDeployment(namespace, "other", 0)

		see("the scaler is created first", "DeploymentNotFound", func() { create(t, scaler) })
		see("the target is created", "DeploymentFound", func() { create(t, target.DeepCopy()) })
		see("the target is being deleted", "DeploymentTerminating", func() { remove(t, target) })
		see("the target is gone", "DeploymentNotFound", func() {
			edit(t, target.DeepCopy(), func(d *appsv1.Deployment) { d.Finalizers = nil })
		})
		see("the target is created again", "DeploymentFound", func() { create(t, target.DeepCopy()) })
		see("the name is changed to one that is not there", "DeploymentNotFound", func() {
			edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "other" })
		})
		see("the other target is created", "DeploymentFound", func() { create(t, other) })
		see("the other target is deleted", "DeploymentNotFound", func() { remove(t, other) })
		see("the name is changed back", "DeploymentFound", func() {
			edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "web" })
		})

		refresh(t, scaler)
		assert.Equal(t, scaler.Generation, scaler.Status.ObservedGeneration)
	}
	delays.check(t)
}

func TestOwnerTakesTheNameOfADeletedDeploymentWithinASecond(t *testing.T) {
	delays := delays{}
	for range rounds {
		for _, k := range kinds {
			namespace := newNamespace(t)
			other := create(t, newDeployment(namespace, "app", 0))
			owner := k.newOwner(namespace, "app", 0)
			if k.name == "Memcached" {
				owner = k.newOwner(namespace, "app", 1) // It cannot have less.
			}
			create(t, owner)
			becomesDegraded(t, owner, "DeploymentNameTaken")
			deployments := startWatch(t, &appsv1.DeploymentList{}, namespace)

			start := time.Now()
			remove(t, other)
			taken := await(t, deployments, func(e watch.Event) bool {
				deployment, ok := e.Object.(*appsv1.Deployment)
				return ok && e.Type == watch.Added && metav1.IsControlledBy(deployment, owner)
			})

			delays.add("the name is taken by a "+k.name, taken.Sub(start))
		}
	}
	delays.check(t)
}

func TestOOMKillRaisesTheRecommendationWithinASecondAndOnce(t *testing.T) {
	counted := oomKillsCounted(t)
	delays := delays{}
	for range rounds {
		_, pod := runScaled(t, newNamespace(t), 300)
		statuses := startWatch(t, &autoscalingv1beta1.VerticalScalerList{}, pod.Namespace)

		start := time.Now()
		annotate(t, pod, "simulation.upright.example.com/oom-kill", "app/1")
		raised := await(t, statuses, func(e watch.Event) bool {
			scaler, ok := e.Object.(*autoscalingv1beta1.VerticalScaler)
			return ok && memoryOf(scaler.Status.PodTarget) == memoryOf(oomKilledTarget(t, 300))
		})

		delays.add("memory is raised after an OOM kill", raised.Sub(start))
		restarts(t, pod, "app", 1) // Which shows the same kill once more, as the container's last state.
	}
	delays.check(t)
	hasReconciledEverything(t)
	assert.InDelta(t, rounds, oomKillsCounted(t)-counted, 0)
}

// saysOfTarget reports whether an event shows a scaler that says this of its target, for its
// present spec.
func saysOfTarget(e watch.Event, reason string) bool {
	scaler, ok := e.Object.(*autoscalingv1beta1.VerticalScaler)
	if !ok || scaler.Status.ObservedGeneration != scaler.Generation {
		return false
	}
	found := meta.FindStatusCondition(scaler.Status.Conditions, autoscalingv1beta1.ConditionTargetFound)
	return found != nil && found.Reason == reason
}
