package verticalscaler

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

func TestScalerFindsADeploymentThatIsCreatedLater(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	status := waitForNotReady(t, scaler, "DeploymentNotFound")
	testenv.AssertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
	testenv.AssertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
	assert.Len(t, status.Conditions, 5, "no condition of the default status is left")

	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	status = waitForNotReady(t, scaler, "NoPods")
	testenv.AssertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	testenv.AssertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
}

func TestScalerFindsADeploymentThatExists(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	startManager(t, namespace)
	waitForNotReady(t, testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web")), "NoPods")
}

func TestScalerIgnoresDeploymentsThatItDoesNotName(t *testing.T) {
	t.Parallel()
	namespace, other := env.Namespace(t), env.Namespace(t)
	startManager(t, namespace)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "DeploymentNotFound")
	testenv.Create(t, env, testenv.NewDeployment(other, "web"))
	testenv.Create(t, env, testenv.NewDeployment(namespace, "s"))
	// A reconcile after the creation of both Deployments still does not find the target.
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.UpdateMode = "Off" })
	waitForNotReady(t, scaler, "DeploymentNotFound")
}

func TestScalerFollowsDeletionAndRecreationOfItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	for range 3 {
		d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
		found := waitForNotReady(t, scaler, "NoPods")

		removeFinalizer := testenv.AddFinalizer(t, env, d)
		testenv.Delete(t, env, d)
		status := waitForNotReady(t, scaler, "DeploymentTerminating")
		testenv.AssertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentTerminating")
		assert.Equal(t, meta.FindStatusCondition(found.Conditions, "Conflicted"),
			meta.FindStatusCondition(status.Conditions, "Conflicted"), "other conditions do not change")

		removeFinalizer()
		status = waitForNotReady(t, scaler, "DeploymentNotFound")
		testenv.AssertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
	}
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	waitForNotReady(t, scaler, "NoPods")
}

func TestScalerFollowsATargetThatIsRecreatedRapidly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	waitForNotReady(t, scaler, "NoPods")
	for range 10 {
		testenv.Delete(t, env, d)
		d = testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	}
	waitForNotReady(t, scaler, "NoPods")
	testenv.Delete(t, env, d)
	waitForNotReady(t, scaler, "DeploymentNotFound")
}

func TestScalerFollowsItsSpecToAnotherDeploymentAndBack(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	a := testenv.Create(t, env, testenv.NewDeployment(namespace, "a"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "a"))
	waitForNotReady(t, scaler, "NoPods")

	setTarget(t, scaler, "b")
	status := waitForNotReady(t, scaler, "DeploymentNotFound")
	assert.Contains(t, message(status, "Ready"), `Deployment "b" does not exist`)
	b := testenv.Create(t, env, testenv.NewDeployment(namespace, "b"))
	status = waitForNotReady(t, scaler, "NoPods")
	assert.Contains(t, message(status, "Ready"), `"b"`)

	setTarget(t, scaler, "a")
	status = waitForNotReady(t, scaler, "NoPods")
	require.Contains(t, message(status, "Ready"), `"a"`)
	testenv.Delete(t, env, b)
	testenv.Delete(t, env, a)
	waitForNotReady(t, scaler, "DeploymentNotFound")
	testenv.Create(t, env, testenv.NewDeployment(namespace, "b"))
	testenv.Create(t, env, testenv.NewDeployment(namespace, "a"))
	status = waitForNotReady(t, scaler, "NoPods")
	assert.Contains(t, message(status, "Ready"), `"a"`)
}

func TestSuspendedScalerStillReportsItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "NoPods")
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = true })
	status := waitForNotReady(t, scaler, "Suspended")
	testenv.AssertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	testenv.Delete(t, env, d)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		conditions := testenv.Refresh(c, env, scaler).Status.Conditions
		testenv.AssertCondition(c, conditions, "TargetFound", isFalse, "DeploymentNotFound")
		testenv.AssertCondition(c, conditions, "Ready", isFalse, "Suspended")
	}, testenv.Timeout, testenv.Poll)
	setSpec(t, scaler, func(spec *autoscalingv1beta1.VerticalScalerSpec) { spec.Suspend = false })
	waitForNotReady(t, scaler, "DeploymentNotFound")
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	waitForNotReady(t, scaler, "NoPods")
}

func TestRecreatedScalerDoesNotGetThePreviousStatus(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "NoPods")
	for range 5 {
		testenv.Delete(t, env, scaler)
		recreated := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "missing"))
		testenv.AssertCondition(t, recreated.Status.Conditions, "Ready", "Unknown", "Pending")
		status := waitForNotReady(t, recreated, "DeploymentNotFound")
		testenv.AssertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
		testenv.Delete(t, env, recreated)
		scaler = testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
		waitForNotReady(t, scaler, "NoPods")
	}
}

func TestRolloutOfTheTargetCausesNoWrite(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var writes testenv.Writes
	var lookups mapperLookups
	var reconciles testenv.Reconciles
	startManager(t, namespace, writes.Record, lookups.Observe, reconciles.Count)
	d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "s", "web"))
	waitForNotReady(t, scaler, "NoPods")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, 1, testenv.EventReasons(c, env, scaler)["NoPods"])
	}, testenv.Timeout, testenv.Poll)
	written, mapped, reconciled := len(writes.All()), lookups.succeeded.Load(), reconciles.Of(scaler)
	testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
	testenv.MarkAvailable(t, env, d)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, lookups.succeeded.Load(), mapped+2, "both events are mapped")
		assert.Greater(c, reconciles.Of(scaler), reconciled)
	}, testenv.Timeout, testenv.Poll)
	assert.Never(t, func() bool { return len(writes.All()) > written }, testenv.Quiet, testenv.Poll)
	waitForNotReady(t, scaler, "NoPods")
}
