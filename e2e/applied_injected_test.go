package e2e_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// In namespaces with this label, each injector adds a container to every pod. By name, one injector
// runs before Upright's policy and one after it.
const labelInject = "e2e.example.com/inject"

var injectors = []string{"an-injector", "yet-another-injector"}

// injectContainers installs the injectors until the test ends, and waits until they have an effect.
func injectContainers(t *testing.T) {
	t.Helper()
	for _, name := range injectors {
		create(t, newInjector(name))
		create(t, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		})
		t.Cleanup(func() {
			for _, obj := range []client.Object{
				&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, &admissionregistrationv1.MutatingAdmissionPolicy{},
			} {
				obj.SetName(name)
				assert.NoError(t, env.client.Delete(context.WithoutCancel(t.Context()), obj))
			}
		})
	}
	namespace := newNamespace(t, labelInject, "true")
	eventually(t, func(c *assert.CollectT) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"}}
		pod.Spec.Containers = []corev1.Container{{Name: "other", Image: "example.com/other:1"}}
		err := env.client.Create(context.Background(), pod, client.DryRunAll)
		require.NoError(c, err)
		require.Len(c, pod.Spec.Containers, 1+len(injectors))
	})
}

// newInjector returns a policy that adds a container with its own name to a pod.
func newInjector(name string) *admissionregistrationv1.MutatingAdmissionPolicy {
	ignore, never := admissionregistrationv1.Ignore, admissionregistrationv1.NeverReinvocationPolicy
	return &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &ignore, ReinvocationPolicy: never,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelInject: "true"}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{containers: [
					Object.spec.containers{name: "` + name + `", image: "example.com/injected:1",
						resources: Object.spec.containers.resources{requests: {"cpu": "10m", "memory": "10Mi"}}}]}}`},
			}},
		},
	}
}

// requireInjected requires that pods have the containers of all injectors unchanged, and removes these
// containers from the test's copy of the pods.
func requireInjected(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		isInjected := func(c corev1.Container) bool { return slices.Contains(injectors, c.Name) }
		injected := slices.DeleteFunc(slices.Clone(pods[i].Spec.Containers), func(c corev1.Container) bool { return !isInjected(c) })
		require.Len(t, injected, len(injectors))
		for _, container := range injected {
			require.Equal(t, "10m", container.Resources.Requests.Cpu().String())
			require.Equal(t, "10Mi", container.Resources.Requests.Memory().String())
			require.Empty(t, container.Resources.Limits)
		}
		pods[i].Spec.Containers = slices.DeleteFunc(pods[i].Spec.Containers, isInjected)
	}
}
