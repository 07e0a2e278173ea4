package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// The sizes respect the LimitRange, but Upright cannot know of the container that a policy adds.
// The whole pod is too large, and the ReplicaSet controller creates it with the template's size.
func TestPodsRefusedForTheirSizeAreCreatedWithTemplateResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse  func(t *testing.T, namespace string)
		message string
	}{
		"LimitRange for pods": {
			refuse: func(t *testing.T, namespace string) {
				t.Helper()
				injectContainer(t, namespace)
				limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "limits"}}
				limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: resourceList("700m", "2Gi")}}
				create(t, limits)
			},
			message: "maximum cpu usage per Pod is 700m, but limit is 800m",
		},
		"ValidatingAdmissionPolicy": {
			refuse: func(t *testing.T, namespace string) {
				t.Helper()
				refusePods(t, namespace, `object.spec.containers.all(c, quantity(string(c.resources.requests['cpu'])).compareTo(quantity('200m')) <= 0)`)
			},
			message: "denied request: at most 200m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := create(t, newWebDeployment(namespace, 1, "Granted"))
			waitForSettled(t, deployment)
			scaler := newImmediateScaler(namespace, "web")
			scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
			create(t, scaler)
			waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
			waitForSizeTable(t, scaler)
			env.guard.expectRefusals(namespace)
			c.refuse(t, namespace)

			kubectl(t, namespace, "scale", "deployment", "web", "--replicas=3")

			waitForApplied(t, scaler, metav1.ConditionFalse, "CreationRefused")
			assert.Contains(t, conditionMessage(scaler, "Applied"), c.message)
			waitForSettled(t, refresh(t, deployment))
			for _, pod := range ownedPods(t, deployment) {
				assert.True(t, equality.Semantic.DeepEqual(templateResources, pod.Spec.Containers[0].Resources),
					"pod %s: %v", pod.Name, pod.Spec.Containers[0].Resources)
			}
			message := conditionMessage(refresh(t, scaler), "Applied")
			eventually(t, func(c *assert.CollectT) { requireWarningEvent(c, scaler, "CreationRefused", message) })
		})
	}
}

// podCreation matches the creation of pods in a namespace.
func podCreation(namespace string) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}},
	}
}

// injectContainer adds a second container to the new pods of a namespace, after their first one.
func injectContainer(t *testing.T, namespace string) {
	t.Helper()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "inject-" + namespace}}
	policy.Spec.MatchConstraints = podCreation(namespace)
	policy.Spec.ReinvocationPolicy = admissionregistrationv1.NeverReinvocationPolicy
	policy.Spec.Mutations = []admissionregistrationv1.Mutation{{
		PatchType: admissionregistrationv1.PatchTypeJSONPatch,
		JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{
			name: "proxy", image: "example.com/proxy:1", resources: Object.spec.containers.resources{
				requests: {"cpu": "200m", "memory": "32Mi"}, limits: {"cpu": "200m", "memory": "32Mi"}}}}]`},
	}}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName = policy.Name
	createForTest(t, policy, binding)
	waitForNewPod(t, namespace, func(c *assert.CollectT, pod *corev1.Pod, err error) {
		require.NoError(c, err)
		require.Len(c, pod.Spec.Containers, 2)
	})
}

// refusePods refuses the new pods of a namespace unless an expression is true.
func refusePods(t *testing.T, namespace, expression string) {
	t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refuse-" + namespace}}
	policy.Spec.MatchConstraints = podCreation(namespace)
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: expression, Message: "at most 200m"}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	createForTest(t, policy, binding)
	waitForNewPod(t, namespace, func(c *assert.CollectT, _ *corev1.Pod, err error) {
		require.ErrorContains(c, err, "at most 200m")
	})
}

// createForTest creates cluster-scoped objects and deletes them when the test ends.
func createForTest(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		create(t, obj)
		t.Cleanup(func() {
			assert.NoError(t, client.IgnoreNotFound(env.client.Delete(context.Background(), obj)))
		})
	}
}

// waitForNewPod waits until the API server does with a new pod, which is larger than the template,
// what is expected. It applies policies with a delay.
func waitForNewPod(t *testing.T, namespace string, expected func(*assert.CollectT, *corev1.Pod, error)) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}
		pod.Spec.Containers = []corev1.Container{{Name: "other", Image: "example.com/other:1", Resources: recommendedResources}}
		err := env.client.Create(context.Background(), pod, client.DryRunAll)
		expected(c, pod, err)
	})
}
