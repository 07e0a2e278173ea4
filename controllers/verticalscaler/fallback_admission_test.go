package verticalscaler

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/ssa"
	"example.com/upright/internal/testenv"
)

// createQuota limits the CPU that the pods of a namespace request.
func createQuota(t *testing.T, namespace string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: testenv.Amounts("200m", "0")["cpu"]}
	testenv.Create(t, env, quota)
	quota.Status = corev1.ResourceQuotaStatus{
		Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourceRequestsCPU: testenv.Amounts("0", "0")["cpu"]},
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), quota))
}

// createValidation creates an admission policy that refuses the pods of a namespace unless an
// expression is true.
func createValidation(t *testing.T, namespace, expression string) {
	t.Helper()
	name := "validation-" + namespace
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}},
	}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: expression, Message: "not this size"}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec.PolicyName = name
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	for _, obj := range []client.Object{policy, binding} {
		testenv.Create(t, env, obj)
		t.Cleanup(func() { testenv.Delete(t, env, obj) })
	}
}

// The API server refuses pods of the recommended size, and admits those of the fallback.
func TestPodsRefusedForTheirSizeAreCreatedWithTheFallbackSize(t *testing.T) {
	t.Parallel()
	limits := testenv.Amounts("200m", "512Mi")
	const atMost200m = `object.spec.containers.all(c, quantity(string(c.resources.requests['cpu'])).compareTo(quantity('200m')) <= 0)`
	for name, test := range map[string]struct {
		install func(t *testing.T, namespace string)
		target  corev1.ResourceList
		good    corev1.ResourceList
		sidecar corev1.ResourceList // Another plugin adds it to each pod.
		reason  string
		text    string
		want    corev1.ResourceList
		limits  corev1.ResourceList
	}{
		"ResourceQuota": {
			install: createQuota, target: large, reason: "QuotaExceeded", text: "exceeded quota: team", want: small, limits: limits,
		},
		"LimitRange for pods, with an injected sidecar": {
			install: func(t *testing.T, namespace string) {
				t.Helper()
				testenv.Create(t, env, newLimitRange(namespace, corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: testenv.Amounts("1200m", "4Gi")}))
			},
			target: large, sidecar: testenv.Amounts("300m", "64Mi"),
			reason: "CreationRefused", text: "maximum cpu usage per Pod is 1200m, but limit is 1300m", want: small, limits: limits,
		},
		"ValidatingAdmissionPolicy with a maximum": {
			install: func(t *testing.T, namespace string) { t.Helper(); createValidation(t, namespace, atMost200m) },
			target:  large, reason: "CreationRefused", text: "denied request: not this size", want: small, limits: limits,
		},
		"ValidatingAdmissionPolicy with a minimum": {
			install: func(t *testing.T, namespace string) {
				t.Helper()
				createValidation(t, namespace, `!(`+atMost200m+`)`)
			},
			target: testenv.Amounts("200m", "256Mi"), reason: "CreationRefused", text: "denied request: not this size", want: large, limits: huge,
		},
		"last known good size": {
			install: func(t *testing.T, namespace string) { t.Helper(); createValidation(t, namespace, atMost200m) },
			target:  large, good: testenv.Amounts("150m", "512Mi"),
			reason: "CreationRefused", text: "denied request: not this size", want: testenv.Amounts("150m", "512Mi"), limits: testenv.Amounts("300m", "1Gi"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := newContainer("web", small, limits)
			if test.limits.Cpu().Equal(*huge.Cpu()) {
				template = newContainer("web", large, huge)
			}
			w := newWorkload(t, 1, []corev1.Container{template}, useInitialMode, func(w *workload) {
				w.scaler.Spec.ContainerPolicies = fixedPolicies(test.target)
			})
			if test.good != nil {
				w.setLastKnownGood(t, test.good)
			}
			test.install(t, w.namespace)
			w.start(t).waitForTable(t)
			pod := w.newPod(template)
			if test.sidecar != nil {
				pod.Spec.Containers = append(pod.Spec.Containers, newContainer("proxy", test.sidecar, test.sidecar))
			}
			var refusal string
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				err := env.Client.Create(context.Background(), pod.DeepCopy(), client.DryRunAll)
				if assert.ErrorContains(c, err, test.text) {
					refusal = err.Error()
				}
			}, testenv.Timeout, testenv.Poll)
			w.setReplicaFailure(t, refusal)
			assert.Contains(t, w.waitForApplied(t, isFalse, test.reason), test.text)
			w.waitForNewPod(t, pod, test.want, test.limits)
		})
	}
}

// setLastKnownGood writes a last known good size to the scaler's status as the manager does.
func (w *workload) setLastKnownGood(t *testing.T, requests corev1.ResourceList) {
	t.Helper()
	require.NoError(t, ssa.ApplyStatus(t.Context(), w.env.Client, name, w.scaler, autoscalingv1beta1.VerticalScalerStatus{
		DeploymentName: "web", LastKnownGood: &autoscalingv1beta1.ObservedSize{
			Sizes: []autoscalingv1beta1.ContainerSizing{newSizing("web", requests, nil)}, Since: metav1.Now(),
		},
	}))
}
