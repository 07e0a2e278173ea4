package bench

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// pods is the desired state in the spec of an owner or of a Deployment.
type pods struct {
	count int32
	image string
}

// ownerState is the state of an owner at a revision.
type ownerState struct {
	revision   uint64
	name       string
	generation int64
	desired    pods
	// availableFor is the observed generation of Available=True, or 0 if Available is not True.
	availableFor int64
}

// deploymentState is the state of a Deployment at a revision.
type deploymentState struct {
	revision uint64
	name     string
	desired  pods
	// available is true if the desired pods are available and there are no other pods.
	available bool
}

func stateOfDeployment(d *appsv1.Deployment) deploymentState {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	return deploymentState{
		revision: revision(d), name: d.Name,
		desired: pods{count: replicas, image: d.Spec.Template.Spec.Containers[0].Image},
		available: d.DeletionTimestamp.IsZero() && d.Status.ObservedGeneration >= d.Generation &&
			d.Status.Replicas == replicas && d.Status.UpdatedReplicas == replicas && d.Status.AvailableReplicas == replicas,
	}
}

// checkClaims returns how often Available became True for another generation of an owner, and
// the owners for which this was too early: at that revision, the owner's Deployment did not have
// the desired state of that generation, or was not available.
func checkClaims(owners []ownerState, deployments []deploymentState) (claims int, early []string) {
	slices.SortStableFunc(owners, func(a, b ownerState) int { return cmp.Compare(a.revision, b.revision) })
	type spec struct {
		name       string
		generation int64
	}
	desired := map[spec]pods{}
	claimed := map[string]int64{}
	latest := map[string]deploymentState{}
	for _, owner := range owners {
		for len(deployments) > 0 && deployments[0].revision <= owner.revision {
			latest[deployments[0].name] = deployments[0]
			deployments = deployments[1:]
		}
		desired[spec{owner.name, owner.generation}] = owner.desired
		previous := claimed[owner.name]
		claimed[owner.name] = owner.availableFor
		if owner.availableFor == 0 || owner.availableFor == previous {
			continue
		}
		claims++
		deployment := latest[owner.name]
		if !deployment.available || deployment.desired != desired[spec{owner.name, owner.availableFor}] {
			early = append(early, owner.name)
		}
	}
	slices.Sort(early)
	return claims, slices.Compact(early)
}

func anyContainer() corev1.Container { return corev1.Container{Name: "any", Image: "any"} }

func TestCheckClaimsUsesTheDeploymentAtTheRevisionOfTheClaim(t *testing.T) {
	two, three := pods{2, "old"}, pods{3, "new"}
	changed := []ownerState{
		{revision: 1, name: "x", generation: 1, desired: two},
		{revision: 10, name: "x", generation: 1, desired: two, availableFor: 1},
		{revision: 11, name: "x", generation: 2, desired: three, availableFor: 1},
		{revision: 20, name: "x", generation: 2, desired: three, availableFor: 2},
	}
	for name, test := range map[string]struct {
		deployments []deploymentState
		early       []string
	}{
		"available at both claims": {deployments: []deploymentState{
			{revision: 9, name: "x", desired: two, available: true}, {revision: 19, name: "x", desired: three, available: true},
		}},
		"no Deployment": {early: []string{"x"}},
		"only another Deployment": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "y", desired: two, available: true}, {revision: 19, name: "y", desired: three, available: true},
		}},
		"available only after the first claim": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", desired: two}, {revision: 12, name: "x", desired: two, available: true},
			{revision: 19, name: "x", desired: three, available: true},
		}},
		"available for the previous generation": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", desired: two, available: true},
		}},
		"no longer available": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", desired: two, available: true},
			{revision: 15, name: "x", desired: three, available: true}, {revision: 19, name: "x", desired: three},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			claims, early := checkClaims(slices.Clone(changed), test.deployments)

			assert.Equal(t, 2, claims)
			assert.Equal(t, test.early, early)
		})
	}
}
