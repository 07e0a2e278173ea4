package controllers

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
)

// TestOwnersTryAgainWhatAPolicyRefuses shows that the refusal of an admission policy, which
// the API server calls Invalid as it does a bad field, holds only as long as the policy.
func TestOwnersTryAgainWhatAPolicyRefuses(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		policy := refuseDeployments(t, namespace)
		startManager(t, namespace)
		obj := create(t, kind.newObject(namespace, "box"))
		status := kind.is(t, obj, metav1.ConditionFalse, "ApplyFailed")
		assert.Contains(t, status.Conditions[0].Message, "not today")

		require.NoError(t, env.Client.Delete(t.Context(), policy))
		rollOut(t, deployment(t, namespace, "box"))
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
	})
}

// refuseDeployments sets up an admission policy for a namespace and waits until it holds.
func refuseDeployments(t *testing.T, namespace string) client.Object {
	t.Helper()
	policy := create(t, &admissionv1.ValidatingAdmissionPolicy{
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
	create(t, &admissionv1.ValidatingAdmissionPolicyBinding{
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
	}, soon, often)
	return policy
}

// TestOwnersLeaveANamespaceThatIsBeingDeletedInPeace shows that nothing is written or tried
// again there. (Without a namespace controller, as here, the namespace is never gone.)
func TestOwnersLeaveANamespaceThatIsBeingDeletedInPeace(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		obj := create(t, kind.newObject(namespace, "box"))
		require.NoError(t, env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
		passes := kind.passesOver(obj, likeCached(t, interceptor.Funcs{}))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
			assert.ErrorContains(c, env.Client.Create(t.Context(), probe, client.DryRunAll), "being terminated")
		}, soon, often)

		_, err := passes.pass()
		require.NoError(t, err)
		assertCondition(t, kind.status(refresh(t, obj)).Conditions, "Ready", metav1.ConditionUnknown, "Pending")
		assert.Empty(t, passes.events())
	})
}
