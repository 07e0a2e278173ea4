package verticalscaler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/testenv"
)

// newInjector returns an admission policy that adds a container to the pods of a namespace, and its
// binding. The container requests as much CPU as container "web" has when the policy is applied.
func newInjector(namespace, name, container string) []client.Object {
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
	expression := `Object{spec: Object.spec{containers: [Object.spec.containers{name: "` + container + `", image: "injected:1",
		resources: Object.spec.containers.resources{requests: {
			"cpu": string(object.spec.containers.filter(c, c.name == "web")[0].resources.requests["cpu"]), "memory": "10Mi"}}}]}}`
	return []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
					ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
				},
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		},
	}
}

// The API server applies policies in random order, whatever their names, and changes the order
// when any policy changes (calculatePolicyData in pkg/admission/plugin/policy/generic of
// k8s.io/apiserver).
func TestPodIsSizedWhetherOtherPoliciesAddContainersBeforeOrAfter(t *testing.T) {
	t.Parallel()
	w := newWorkload(t, 1, []corev1.Container{newContainer("web", small, nil)}, useInitialMode).start(t)
	w.waitForNewPod(t, w.newPod(newContainer("web", small, nil)), large, nil)
	var installed []client.Object
	const injectors = 8 // With so many, most orders have policies both before and after the sizing.
	for i := range injectors {
		container := fmt.Sprintf("injected-%d", i)
		for _, obj := range newInjector(w.namespace, container+"-"+w.namespace, container) {
			installed = append(installed, testenv.Create(t, env, obj))
			t.Cleanup(func() { testenv.Delete(t, env, obj) })
		}
	}
	orders := map[bool]bool{} // True if a policy was applied after the sizing, false if one was applied before it.
	require.Eventually(t, func() bool {
		pod := w.newPod(newContainer("web", small, nil))
		if err := env.Client.Create(t.Context(), pod, client.DryRunAll); !assert.NoError(t, err) || len(pod.Spec.Containers) <= injectors {
			return false
		}
		for _, container := range pod.Spec.Containers {
			assert.Empty(t, container.Resources.Limits)
			requests := container.Resources.Requests
			if container.Name == "web" {
				assert.True(t, equality.Semantic.DeepEqual(large, requests), "requests: %v", requests)
				continue
			}
			assert.Equal(t, "10Mi", requests.Memory().String())
			orders[requests.Cpu().Equal(large["cpu"])] = true
		}
		installed[0].SetLabels(map[string]string{"changed": installed[0].GetResourceVersion()})
		assert.NoError(t, env.Client.Update(t.Context(), installed[0]))
		return len(orders) == 2 || t.Failed()
	}, 3*testenv.Timeout, testenv.Poll)
}
