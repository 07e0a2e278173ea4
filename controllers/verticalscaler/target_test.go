package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestScalerCreatedFirstFindsTheDeploymentWhenItComes(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := create(t, newScaler(namespace, "s", "web"))
	status := scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	assertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
	assertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
	assert.Len(t, status.Conditions, 5, "what the default status said is gone")

	create(t, foreign(namespace, "web"))
	status = scalerIs(t, scaler, isFalse, "NoPods")
	assertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	assertCondition(t, status.Conditions, "Conflicted", isFalse, "NotConflicted")
}

func TestScalerFindsADeploymentThatIsThereAlready(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	create(t, foreign(namespace, "web"))
	startManager(t, namespace)
	scalerIs(t, create(t, newScaler(namespace, "s", "web")), isFalse, "NoPods")
}

func TestScalerFindsADeploymentOfUprightsOwnAsAnyOther(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := create(t, newScaler(namespace, "s", "box"))
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	create(t, newBusybox(namespace, "box"))
	scalerIs(t, scaler, isFalse, "NoPods")
}

func TestScalerIgnoresDeploymentsOfItsNameAndOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	namespace, other := env.Namespace(t), env.Namespace(t)
	var passes flakyCache
	startManager(t, namespace, passes.use)
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	create(t, foreign(other, "web"))
	create(t, foreign(namespace, "s"))
	// A pass after both Deployments exist still finds none.
	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = "Off" })
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
}

func TestScalerFollowsTheDeletionAndReCreationOfItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := create(t, newScaler(namespace, "s", "web"))
	for range 3 {
		d := create(t, foreign(namespace, "web"))
		found := scalerIs(t, scaler, isFalse, "NoPods")

		release := finalize(t, d)
		remove(t, d)
		status := scalerIs(t, scaler, isFalse, "DeploymentTerminating")
		assertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentTerminating")
		assert.Equal(t, condition(found, "Conflicted"), condition(status, "Conflicted"), "what did not change is left as it was")

		release()
		status = scalerIs(t, scaler, isFalse, "DeploymentNotFound")
		assertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
	}
	create(t, foreign(namespace, "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
}

func TestScalerIsNotLeftBehindWhenItsTargetIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	scaler := create(t, newScaler(namespace, "s", "web"))
	d := create(t, foreign(namespace, "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
	for range 10 {
		remove(t, d)
		d = create(t, foreign(namespace, "web"))
	}
	scalerIs(t, scaler, isFalse, "NoPods")
	remove(t, d)
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
}

func TestScalerFollowsItsSpecToAnotherDeploymentAndBack(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	a := create(t, foreign(namespace, "a"))
	scaler := create(t, newScaler(namespace, "s", "a"))
	scalerIs(t, scaler, isFalse, "NoPods")

	turn := func(to string) {
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = to })
	}
	turn("b")
	status := scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	assert.Contains(t, condition(status, "Ready").Message, `There is no Deployment "b"`)
	b := create(t, foreign(namespace, "b"))
	status = scalerIs(t, scaler, isFalse, "NoPods")
	assert.Contains(t, condition(status, "Ready").Message, `"b"`)

	turn("a")
	require.Contains(t, condition(scalerIs(t, scaler, isFalse, "NoPods"), "Ready").Message, `"a"`)
	remove(t, b)
	remove(t, a)
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	create(t, foreign(namespace, "b"))
	create(t, foreign(namespace, "a"))
	status = scalerIs(t, scaler, isFalse, "NoPods")
	assert.Contains(t, condition(status, "Ready").Message, `"a"`)
}

func TestSuspendedScalerSaysSoAndStillFollowsItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	d := create(t, foreign(namespace, "web"))
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
	suspend := func(suspend bool) {
		edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = suspend })
	}
	suspend(true)
	status := scalerIs(t, scaler, isFalse, "Suspended")
	assertCondition(t, status.Conditions, "TargetFound", isTrue, "DeploymentFound")
	remove(t, d)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		conditions := refresh(c, scaler).Status.Conditions
		assertCondition(c, conditions, "TargetFound", isFalse, "DeploymentNotFound")
		assertCondition(c, conditions, "Ready", isFalse, "Suspended")
	}, soon, often)
	suspend(false)
	scalerIs(t, scaler, isFalse, "DeploymentNotFound")
	create(t, foreign(namespace, "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
}

func TestScalerCreatedAnewUnderItsNameDoesNotGetTheStatusOfTheOneBefore(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	create(t, foreign(namespace, "web"))
	first := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, first, isFalse, "NoPods")
	for range 5 {
		remove(t, first)
		second := create(t, newScaler(namespace, "s", "gone"))
		assertCondition(t, second.Status.Conditions, "Ready", "Unknown", "Pending")
		status := scalerIs(t, second, isFalse, "DeploymentNotFound")
		assertCondition(t, status.Conditions, "TargetFound", isFalse, "DeploymentNotFound")
		remove(t, second)
		first = create(t, newScaler(namespace, "s", "web"))
		scalerIs(t, first, isFalse, "NoPods")
	}
}

func TestScalerDoesNotMindARolloutOfItsTarget(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	var wrote writes
	var passes flakyCache
	startManager(t, namespace, wrote.record, passes.use)
	d := create(t, foreign(namespace, "web"))
	scaler := create(t, newScaler(namespace, "s", "web"))
	scalerIs(t, scaler, isFalse, "NoPods")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, 1, told(c, scaler)["NoPods"]) }, soon, often)
	wroteBefore, passesBefore := len(wrote.all()), passes.lists.Load()
	edit(t, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:2" })
	rollOut(t, d)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, passes.lists.Load(), passesBefore+3, "two events mapped and a pass made")
	}, soon, often)
	assert.Never(t, func() bool { return len(wrote.all()) > wroteBefore }, aWhile, often)
	scalerIs(t, scaler, isFalse, "NoPods")
}
