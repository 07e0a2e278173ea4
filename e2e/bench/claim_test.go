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

// pods are what an owner wants and a Deployment runs.
type pods struct {
	count int32
	image string
}

// ownerState is an owner as it was written at a revision.
type ownerState struct {
	revision   uint64
	name       string
	generation int64
	wants      pods
	// availableFor is the generation that Available=True speaks of, 0 where it is not True.
	availableFor int64
}

// deploymentState is a Deployment as it was written at a revision.
type deploymentState struct {
	revision uint64
	name     string
	runs     pods
	// available says that all of these run, and none other.
	available bool
}

func stateOfDeployment(d *appsv1.Deployment) deploymentState {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return deploymentState{
		revision: revision(d), name: d.Name,
		runs: pods{count: wanted, image: d.Spec.Template.Spec.Containers[0].Image},
		available: d.DeletionTimestamp.IsZero() && d.Status.ObservedGeneration >= d.Generation &&
			d.Status.Replicas == wanted && d.Status.UpdatedReplicas == wanted && d.Status.AvailableReplicas == wanted,
	}
}

// judge returns how often an owner began to say that it is available for a
// generation, and which owners said so before it was true: at the revision of the
// claim, the last state of the owner's Deployment was not what the generation
// asks for, or not available.
func judge(owners []ownerState, deployments []deploymentState) (claims int, early []string) {
	slices.SortStableFunc(owners, func(a, b ownerState) int { return cmp.Compare(a.revision, b.revision) })
	type asked struct {
		name       string
		generation int64
	}
	wants := map[asked]pods{}
	claimed := map[string]int64{}
	last := map[string]deploymentState{}
	for _, owner := range owners {
		for len(deployments) > 0 && deployments[0].revision <= owner.revision {
			last[deployments[0].name] = deployments[0]
			deployments = deployments[1:]
		}
		wants[asked{owner.name, owner.generation}] = owner.wants
		before := claimed[owner.name]
		claimed[owner.name] = owner.availableFor
		if owner.availableFor == 0 || owner.availableFor == before {
			continue
		}
		claims++
		deployment := last[owner.name]
		if !deployment.available || deployment.runs != wants[asked{owner.name, owner.availableFor}] {
			early = append(early, owner.name)
		}
	}
	slices.Sort(early)
	return claims, slices.Compact(early)
}

func anyContainer() corev1.Container { return corev1.Container{Name: "any", Image: "any"} }

func TestJudgeComparesAClaimToTheDeploymentAtItsRevision(t *testing.T) {
	two, three := pods{2, "old"}, pods{3, "new"}
	changed := []ownerState{
		{revision: 1, name: "x", generation: 1, wants: two},
		{revision: 10, name: "x", generation: 1, wants: two, availableFor: 1},
		{revision: 11, name: "x", generation: 2, wants: three, availableFor: 1},
		{revision: 20, name: "x", generation: 2, wants: three, availableFor: 2},
	}
	for name, test := range map[string]struct {
		deployments []deploymentState
		early       []string
	}{
		"true both times": {deployments: []deploymentState{
			{revision: 9, name: "x", runs: two, available: true}, {revision: 19, name: "x", runs: three, available: true},
		}},
		"no Deployment": {early: []string{"x"}},
		"another's Deployment": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "y", runs: two, available: true}, {revision: 19, name: "y", runs: three, available: true},
		}},
		"available after the first claim only": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", runs: two}, {revision: 12, name: "x", runs: two, available: true},
			{revision: 19, name: "x", runs: three, available: true},
		}},
		"still available for the generation before": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", runs: two, available: true},
		}},
		"no longer available": {early: []string{"x"}, deployments: []deploymentState{
			{revision: 9, name: "x", runs: two, available: true},
			{revision: 15, name: "x", runs: three, available: true}, {revision: 19, name: "x", runs: three},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			claims, early := judge(slices.Clone(changed), test.deployments)

			assert.Equal(t, 2, claims)
			assert.Equal(t, test.early, early)
		})
	}
}
