package verticalscaler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestYoungerScalerTakesOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *autoscalingv1beta1.VerticalScaler){
		"when the older is deleted": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
			t.Helper()
			testenv.Delete(t, env, older)
		},
		"when the older waits for a finalizer": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
			t.Helper()
			testenv.AddFinalizer(t, env, older)
			testenv.Delete(t, env, older)
		},
		"when the older gets another target": func(t *testing.T, older *autoscalingv1beta1.VerticalScaler) {
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
			status := waitForNotReady(t, younger, "NoPods")
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
	waitForNotReady(t, younger, "NoPods")
	status := waitForNotReady(t, recreated, "Conflicted")
	assert.Contains(t, message(status, "Ready"), `"a-younger"`)
}

func TestOlderScalerTakesOverItsNewTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older := testenv.Create(t, env, testenv.NewScaler(namespace, "z-older", "other"))
	waitForNotReady(t, older, "DeploymentNotFound")
	testenv.WaitForNextSecond(t, older)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	younger := testenv.Create(t, env, testenv.NewScaler(namespace, "a-younger", "web"))
	waitForNotReady(t, younger, "NoPods")
	setTarget(t, older, "web")
	waitForNotReady(t, older, "NoPods")
	waitForNotReady(t, younger, "Conflicted")
}

func TestSuspendedScalerStillConflicts(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older, younger := createConflict(t, namespace)
	setSpec(t, older, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
	waitForNotReady(t, older, "Suspended")
	// A later reconcile of the younger scaler still observes the conflict.
	setSpec(t, younger, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = "Off" })
	waitForNotReady(t, younger, "Conflicted")
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
	waitForNotReady(t, first, "DeploymentNotFound")
	status := waitForNotReady(t, second, "Conflicted")
	assert.Contains(t, message(status, "Ready"), fmt.Sprintf("%q is older", first.Name))
	testenv.Delete(t, env, first)
	waitForNotReady(t, second, "DeploymentNotFound")
}

func TestConflictNamesTheOldestScaler(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	older, younger := createConflict(t, namespace)
	testenv.WaitForNextSecond(t, younger)
	third := testenv.Create(t, env, testenv.NewScaler(namespace, "0-third", "web"))
	status := waitForNotReady(t, third, "Conflicted")
	assert.Contains(t, message(status, "Ready"), `"z-older"`)
	testenv.Delete(t, env, older)
	waitForNotReady(t, younger, "NoPods")
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
	waitForNotReady(t, scaler, "NoPods")
	testenv.WaitForNextSecond(t, scaler)
	waitForNotReady(t, testenv.Create(t, env, testenv.NewScaler(other, "s", "web")), "NoPods")
}
