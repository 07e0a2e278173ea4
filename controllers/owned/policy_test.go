package owned

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"example.com/upright/internal/testenv"
)

// TestOwnerRetriesDeploymentThatPolicyRejects shows that the error of an admission policy is
// retried, although the API server returns Invalid for it, as for an invalid field.
func TestOwnerRetriesDeploymentThatPolicyRejects(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		policy := rejectDeployments(t, namespace)
		startManager(t, namespace)
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		status := kind.waitForReady(t, obj, metav1.ConditionFalse, "ApplyFailed")
		assert.Contains(t, status.Conditions[0].Message, "not today")

		testenv.Delete(t, env, policy)
		testenv.MarkAvailable(t, env, testenv.WaitForDeployment(t, env, namespace, "web"))
		kind.waitForReady(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

// rejectDeployments creates an admission policy that rejects all Deployments in a namespace, and
// waits until it has effect.
func rejectDeployments(t *testing.T, namespace string) client.Object {
	t.Helper()
	policy := testenv.Create(t, env, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.OperationAll},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"*"}, Resources: []string{"deployments"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "not today"}},
		},
	})
	testenv.Create(t, env, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	})
	t.Cleanup(func() { assert.NoError(t, client.IgnoreNotFound(env.Client.Delete(context.Background(), policy))) })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		busybox := newBusybox(namespace, "probe")
		busybox.Spec.Image = "busybox"
		probe := busyboxDeployment(busybox)
		probe.OwnerReferences = nil
		assert.ErrorContains(c, env.Client.Apply(t.Context(), probe, client.FieldOwner("probe"), client.DryRunAll), "not today")
	}, testenv.Timeout, testenv.Poll)
	return policy
}

// TestOwnerWritesNothingInTerminatingNamespace shows that nothing is written or retried there.
// The test environment runs no namespace controller, so the namespace stays Terminating.
func TestOwnerWritesNothingInTerminatingNamespace(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := testenv.Create(t, env, kind.newObject(namespace, "web"))
		testenv.Delete(t, env, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		r := kind.reconcilerOf(obj, newDirectClient(t, interceptor.Funcs{}))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
			assert.ErrorContains(c, env.Client.Create(t.Context(), probe, client.DryRunAll), "being terminated")
		}, testenv.Timeout, testenv.Poll)

		r.mustReconcile(t)
		testenv.AssertCondition(t, kind.status(testenv.Refresh(t, env, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")
		assert.Empty(t, r.events())
	})
}
