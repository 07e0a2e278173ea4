package controllers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// rivals creates two scalers on Deployment web, which exists, and returns them when the
// older acts and the younger says so. By their names alone it would be the other way round.
func rivals(t *testing.T, namespace string) (elder, younger *autoscalingv1beta1.VerticalScaler) {
	t.Helper()
	create(t, foreign(namespace, "web"))
	elder = create(t, newScaler(namespace, "z-elder", "web"))
	nextSecond(t, elder)
	younger = create(t, newScaler(namespace, "a-younger", "web"))
	status := scalerIs(t, younger, isFalse, "Conflicted")
	assertCondition(t, status.Conditions, "Conflicted", isTrue, "Conflicted")
	assertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	assert.Contains(t, condition(status, "Ready").Message, `"z-elder"`)
	assert.Contains(t, condition(status, "Conflicted").Message, `"z-elder"`)
	scalerIs(t, elder, isFalse, "NoPods")
	return elder, younger
}

func TestOfTwoScalersTheYoungerStepsInAtOnceWhenTheElder(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*testing.T, *autoscalingv1beta1.VerticalScaler){
		"is deleted": func(t *testing.T, elder *autoscalingv1beta1.VerticalScaler) {
			remove(t, elder)
		},
		"is being deleted and waits for a finalizer": func(t *testing.T, elder *autoscalingv1beta1.VerticalScaler) {
			finalize(t, elder)
			remove(t, elder)
		},
		"turns to another Deployment": func(t *testing.T, elder *autoscalingv1beta1.VerticalScaler) {
			edit(t, elder, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "other" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			startManager(t, namespace)
			elder, younger := rivals(t, namespace)
			leave(t, elder)
			status := scalerIs(t, younger, isFalse, "NoPods")
			assertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
		})
	}
}

func TestAnElderScalerThatIsCreatedAnewIsTheYoungerOfTheTwo(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	elder, younger := rivals(t, namespace)
	nextSecond(t, younger)
	remove(t, elder)
	anew := create(t, newScaler(namespace, "z-elder", "web"))
	scalerIs(t, younger, isFalse, "NoPods")
	status := scalerIs(t, anew, isFalse, "Conflicted")
	assert.Contains(t, condition(status, "Ready").Message, `"a-younger"`)
}

func TestAnElderScalerThatTurnsToADeploymentTakesItOver(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	elder := create(t, newScaler(namespace, "z-elder", "other"))
	scalerIs(t, elder, isFalse, "DeploymentNotFound")
	nextSecond(t, elder)
	create(t, foreign(namespace, "web"))
	younger := create(t, newScaler(namespace, "a-younger", "web"))
	scalerIs(t, younger, isFalse, "NoPods")
	edit(t, elder, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "web" })
	scalerIs(t, elder, isFalse, "NoPods")
	scalerIs(t, younger, isFalse, "Conflicted")
}

func TestASuspendedScalerKeepsItsClaim(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var passes flakyCache
	startManager(t, namespace, passes.use)
	elder, younger := rivals(t, namespace)
	edit(t, elder, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true })
	scalerIs(t, elder, isFalse, "Suspended")
	// A pass over the younger after that still sees the conflict.
	edit(t, younger, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	scalerIs(t, younger, isFalse, "Conflicted")
}

func TestOfTwoScalersOfOneSecondTheNameDecides(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	var first, second *autoscalingv1beta1.VerticalScaler
	for i := 0; ; i++ {
		require.Less(t, i, 20, "no two scalers of one second")
		target := fmt.Sprintf("web-%d", i)
		second = create(t, newScaler(namespace, fmt.Sprintf("b-%d", i), target))
		first = create(t, newScaler(namespace, fmt.Sprintf("a-%d", i), target))
		if first.CreationTimestamp.Equal(&second.CreationTimestamp) {
			break
		}
	}
	scalerIs(t, first, isFalse, "DeploymentNotFound")
	status := scalerIs(t, second, isFalse, "Conflicted")
	assert.Contains(t, condition(status, "Ready").Message, fmt.Sprintf("%q is older", first.Name))
	remove(t, first)
	scalerIs(t, second, isFalse, "DeploymentNotFound")
}

func TestOfThreeScalersEachOfTheOthersNamesTheOneThatActs(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	elder, younger := rivals(t, namespace)
	nextSecond(t, younger)
	third := create(t, newScaler(namespace, "0-third", "web"))
	status := scalerIs(t, third, isFalse, "Conflicted")
	assert.Contains(t, condition(status, "Ready").Message, `"z-elder"`)
	remove(t, elder)
	scalerIs(t, younger, isFalse, "NoPods")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, condition(refresh(c, third).Status, "Ready").Message, `"a-younger"`)
	}, soon, often)
}

func TestScalersOfOneNameInTwoNamespacesDoNotConflict(t *testing.T) {
	t.Parallel()
	namespace, other := env.Namespace(t), env.Namespace(t)
	startManager(t, namespace)
	startManager(t, other)
	create(t, foreign(namespace, "web"))
	create(t, foreign(other, "web"))
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
	nextSecond(t, scaler)
	scalerIs(t, create(t, newScaler(other, "s", "web")), isFalse, "NoPods")
}
