package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/testenv"
)

// undecodable are objects that a loose CRD accepts, and a field of their spec that is invalid.
var undecodable = map[string]string{
	`{apiVersion: example.com/v1alpha1, kind: Busybox, metadata: {name: bad}, spec: {size: 1, image: a, resources: {requests: {cpu: "1e1.5"}}}}`:                                                      "resources: quantities must match",
	`{apiVersion: example.com/v1alpha1, kind: Busybox, metadata: {name: forever}, spec: {size: 1, image: a, resources: {limits: {memory: "1e2147483648"}}}}`:                                          "resources: quantities must match",
	`{apiVersion: example.com/v1alpha1, kind: Busybox, metadata: {name: text}, spec: {size: 1, image: 5}}`:                                                                                            "image: ",
	`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: bad-memcached}, spec: {size: 1, image: a, resources: {requests: {cpu: "1e99999999999999999999"}}}}`:                   "resources: quantities must match",
	`{apiVersion: example.com/v1alpha1, kind: Foo, metadata: {name: bad}, spec: {deploymentName: of-bad-foo, resources: {requests: {cpu: "1e1.5"}}}}`:                                                 "resources: quantities must match",
	`{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScaler, metadata: {name: bad}, spec: {deploymentName: web, recommendation: {podMinimum: {cpu: "1e2147483648"}}}}`:                    "recommendation: quantities must match",
	`{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScaler, metadata: {name: bad-behavior}, spec: {deploymentName: web, behavior: {scaleUp: {tolerance: "1e1.5"}}}}`:                     "behavior: quantities must match",
	`{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScaler, metadata: {name: bad-status}, spec: {deploymentName: 5}, status: {recommendations: [{containerName: a, target: {cpu: x}}]}}`: "deploymentName: ",
}

// createValid creates an object of each kind.
func createValid(t *testing.T, environment *testenv.Environment, namespace, name string) {
	t.Helper()
	named := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name + suffix}
	}
	testenv.Create(t, environment, &examplev1alpha1.Busybox{ObjectMeta: named("-busybox"), Spec: examplev1alpha1.BusyboxSpec{Image: "a"}})
	testenv.Create(t, environment, &cachev1alpha1.Memcached{ObjectMeta: named("-memcached"), Spec: cachev1alpha1.MemcachedSpec{Image: "a"}})
	testenv.Create(t, environment, &examplev1alpha1.Foo{ObjectMeta: named("-foo"), Spec: examplev1alpha1.FooSpec{DeploymentName: name + "-of-foo"}})
	testenv.Create(t, environment, testenv.NewScaler(namespace, name+"-scaler", name+"-busybox"))
}

// waitUntilReconciled waits until the objects of createValid are reconciled.
func waitUntilReconciled(t *testing.T, environment *testenv.Environment, namespace, name string) {
	t.Helper()
	for _, deployment := range []string{"-busybox", "-memcached", "-of-foo"} {
		testenv.WaitForDeployment(t, environment, namespace, name+deployment)
	}
	scaler := &autoscalingv1beta1.VerticalScaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-scaler"}}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, environment, scaler).Status.Conditions, "TargetFound", metav1.ConditionTrue, "DeploymentFound")
	}, testenv.Timeout, testenv.Poll)
}

// assertReported waits until the objects report their invalid field, and asserts that their specs
// have not changed.
func assertReported(t *testing.T, environment *testenv.Environment, created map[*unstructured.Unstructured]string) {
	t.Helper()
	for obj, problem := range created {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			ready := conditionOf(c, environment, obj, "Ready")
			assert.Contains(c, ready, "False SpecInvalid: ", obj.GetName())
			assert.Contains(c, ready, problem, obj.GetName())
		}, testenv.Timeout, testenv.Poll)
		live := obj.DeepCopy()
		require.NoError(t, environment.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), live))
		assert.EqualValues(t, 1, live.GetGeneration(), "the spec of %s is as it was created", obj.GetName())
	}
}

// TestUndecodableObjects has an API server of its own, because it changes the CRDs.
func TestUndecodableObjects(t *testing.T) {
	t.Parallel()
	environment := testenv.Start(t, nil)
	crds := newDefinitions(t, environment)
	for name, test := range map[string]func(*testing.T, *testenv.Environment, *definitions){
		"cost only themselves":          assertOthersAreReconciled,
		"are reconciled when corrected": assertReconciledWhenCorrected,
		"do not change sizes of pods":   assertSizesAreKept,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, environment, crds)
			crds.restore(t)
		})
	}
}

func assertOthersAreReconciled(t *testing.T, environment *testenv.Environment, crds *definitions) {
	t.Helper()
	namespace := environment.Namespace(t)
	m := startAll(t, environment, namespace)
	createValid(t, environment, namespace, "before")
	waitUntilReconciled(t, environment, namespace, "before")

	crds.loosen(t)
	created := map[*unstructured.Unstructured]string{}
	for text, problem := range undecodable {
		obj := manifest(t, namespace, text)
		createWhenAccepted(t, environment, obj)
		created[obj] = problem
	}
	createValid(t, environment, namespace, "while-running")
	waitUntilReconciled(t, environment, namespace, "while-running")
	assertReported(t, environment, created)

	m.Stop()
	createValid(t, environment, namespace, "while-stopped")
	m = startAll(t, environment, namespace)
	waitUntilReconciled(t, environment, namespace, "while-stopped")

	m.Stop()
	crds.restore(t)
	m = startAll(t, environment, namespace)
	createValid(t, environment, namespace, "with-strict-crds")
	waitUntilReconciled(t, environment, namespace, "with-strict-crds")
	assertReported(t, environment, created)
	m.Stop()
}

func assertReconciledWhenCorrected(t *testing.T, environment *testenv.Environment, crds *definitions) {
	t.Helper()
	namespace := environment.Namespace(t)
	crds.loosen(t)
	bad := manifest(t, namespace, `{apiVersion: example.com/v1alpha1, kind: Busybox, metadata: {name: bad}, spec: {size: 1, image: a, resources: {requests: {cpu: "1e1.5"}}}}`)
	createWhenAccepted(t, environment, bad)
	crds.restore(t)
	startAll(t, environment, namespace)
	patch := func(spec string) {
		require.EventuallyWithT(t, func(c *assert.CollectT) { // The restored CRD takes a moment to have an effect.
			assert.NoError(c, environment.Client.Patch(context.Background(), bad, client.RawPatch(types.MergePatchType, []byte(`{"spec": `+spec+`}`))))
		}, testenv.Timeout, testenv.Poll)
	}

	patch(`{"image": "b"}`) // The API server accepts the invalid field, because it does not change.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, conditionOf(c, environment, bad, "Ready"), "False SpecInvalid: ")
	}, testenv.Timeout, testenv.Poll)

	patch(`{"resources": {"requests": {"cpu": "5m"}}}`)
	d := testenv.WaitForDeployment(t, environment, namespace, "bad")
	assert.Equal(t, "5m", d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
}

func assertSizesAreKept(t *testing.T, environment *testenv.Environment, crds *definitions) {
	t.Helper()
	namespace := environment.Namespace(t)
	crds.loosen(t)
	scaler := manifest(t, namespace,
		`{apiVersion: autoscaling.example.com/v1beta1, kind: VerticalScaler, metadata: {name: bad}, spec: {deploymentName: web, containerPolicies: [{containerName: app, minAllowed: {cpu: "1e1.5"}}]}}`)
	createWhenAccepted(t, environment, scaler)
	require.NoError(t, environment.Client.Status().Patch(t.Context(), scaler.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"status": {"deploymentName": "web", "sizing": [{"containerName": "app", "requests": {"cpu": "7m"}}], "lastKnownGood": 5}}`))))
	table := manifest(t, namespace,
		`{apiVersion: autoscaling.example.com/v1beta1, kind: SizeTable, metadata: {name: upright}, deployments: {web: {app: {requests: {cpu: "1e2147483648"}}}}}`)
	createWhenAccepted(t, environment, table)

	startAll(t, environment, namespace)
	younger := testenv.Create(t, environment, testenv.NewScaler(namespace, "younger", "web"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, environment, younger).Status.Conditions, "Conflicted", metav1.ConditionTrue, "Conflicted")
		assert.NoError(c, environment.Client.Get(context.Background(), client.ObjectKeyFromObject(table), table))
		amount, _, err := unstructured.NestedString(table.Object, "deployments", "web", "app", "requests", "cpu")
		assert.NoError(c, err)
		assert.Equal(c, "7m", amount)
		assert.Contains(c, conditionOf(c, environment, scaler, "Ready"), "False SpecInvalid: ")
	}, testenv.Timeout, testenv.Poll)
}
