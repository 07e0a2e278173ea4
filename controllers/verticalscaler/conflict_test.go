package verticalscaler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestYoungerScalerTakesOverWhenTheOlder(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *autoscalingv1beta1.VerticalScaler){
		"is deleted": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
			t.Helper()
			testenv.Delete(t, env, older)
		},
		"is being deleted and has a finalizer": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
			t.Helper()
			testenv.AddFinalizer(t, env, older)
			testenv.Delete(t, env, older)
		},
		"gets another target": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
			t.Helper()
			setTarget(t, older, "other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			startManager(t, namespace)
			older, younger := createConflict(t, namespace)
			end(t, older)
			status := waitForReady(t, younger, isFalse, "NoPods")
			testenv.AssertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
		})
	}
}

func TestRecreatedOlderScalerIsTheYounger(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older, younger := createConflict(t, namespace)
	testenv.WaitForNextSecond(t, younger)
	testenv.Delete(t, env, older)
	recreated := testenv.Create(t, env, testenv.NewScaler(namespace, "z-older", "web"))
	waitForReady(t, younger, isFalse, "NoPods")
	status := waitForReady(t, recreated, isFalse, "Conflicted")
	assert.Contains(t, message(status, "Ready"), `"a-younger"`)
}

func TestOlderScalerTakesOverItsNewTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older := testenv.Create(t, env, testenv.NewScaler(namespace, "z-older", "other"))
	waitForReady(t, older, isFalse, "DeploymentNotFound")
	testenv.WaitForNextSecond(t, older)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	younger := testenv.Create(t, env, testenv.NewScaler(namespace, "a-younger", "web"))
	waitForReady(t, younger, isFalse, "NoPods")
	setTarget(t, older, "web")
	waitForReady(t, older, isFalse, "NoPods")
	waitForReady(t, younger, isFalse, "Conflicted")
}

func TestSuspendedScalerStillConflicts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older, younger := createConflict(t, namespace)
	setSpec(t, older, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
	waitForReady(t, older, isFalse, "Suspended")
	// A later reconcile of the younger scaler still observes the conflict.
	setSpec(t, younger, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = "Off" })
	waitForReady(t, younger, isFalse, "Conflicted")
}

func TestNameDecidesBetweenScalersOfTheSameSecond(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	var first, second *autoscalingv1beta1.VerticalScaler
	for i := 0; ; i++ {
		require.Less(t, i, 20, "no two scalers were created in the same second")
		target := fmt.Sprintf("web-%d", i)
		second = testenv.Create(t, env, testenv.NewScaler(namespace, fmt.Sprintf("b-%d", i), target))
		first = testenv.Create(t, env, testenv.NewScaler(namespace, fmt.Sprintf("a-%d", i), target))
		if first.CreationTimestamp.Equal(&second.CreationTimestamp) {
			break
		}
	}
	waitForReady(t, first, isFalse, "DeploymentNotFound")
	status := waitForReady(t, second, isFalse, "Conflicted")
	assert.Contains(t, message(status, "Ready"), fmt.Sprintf("%q is older", first.Name))
	testenv.Delete(t, env, first)
	waitForReady(t, second, isFalse, "DeploymentNotFound")
}

func TestConflictNamesTheOldestScaler(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older, younger := createConflict(t, namespace)
	testenv.WaitForNextSecond(t, younger)
	third := testenv.Create(t, env, testenv.NewScaler(namespace, "0-third", "web"))
	status := waitForReady(t, third, isFalse, "Conflicted")
	assert.Contains(t, message(status, "Ready"), `"z-older"`)
	testenv.Delete(t, env, older)
	waitForReady(t, younger, isFalse, "NoPods")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, message(testenv.Refresh(c, env, third).Status, "Ready"), `"a-younger"`)
	}, testenv.Timeout, testenv.Poll)
}

func TestScalersInDifferentNamespacesDoNotConflict(t *testing.T) {
	t.Parallel()
	namespace, other := env.Namespace(t), env.Namespace(t)
	startManager(t, namespace)
	startManager(t, other)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	testenv.Create(t, env, testenv.NewDeployment(other, "web"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForReady(t, scaler, isFalse, "NoPods")
	testenv.WaitForNextSecond(t, scaler)
	waitForReady(t, testenv.Create(t, env, testenv.NewScaler(other, "s", "web")), isFalse, "NoPods")
}
