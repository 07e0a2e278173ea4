package e2e_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// birth is a case of what new pods of the Deployment "web" get while the manager is stopped.
type birth struct {
	// What a scaler asks for while the manager runs, which names "web" unless this says
	// otherwise, an older one where there is one, and what the first then says in Applied.
	scaler, older func(*autoscalingv1beta1.VerticalScalerSpec)
	reason        string
	// Whether other admission policies add containers to the pods, all the time.
	isInjected bool
	// What becomes of them, and of the Deployment's pods, while the manager is stopped.
	scalerLater, olderLater func(*autoscalingv1beta1.VerticalScalerSpec)
	podLater                func(*corev1.PodSpec)
	isDeletedLater          bool // The first scaler.

	want corev1.ResourceRequirements
}

// It stops the manager, so it is not parallel.
func TestSpecsHoldForNewPodsWhileTheManagerIsStopped(t *testing.T) {
	type spec = autoscalingv1beta1.VerticalScalerSpec
	off := func(s *spec) { s.UpdateMode = autoscalingv1beta1.UpdateModeOff }
	suspended := func(s *spec) { s.Suspend = true }
	web, other := func(s *spec) { s.DeploymentName = "web" }, func(s *spec) { s.DeploymentName = "other" }
	requestsOnly := func(s *spec) {
		s.ContainerPolicies[0].ControlledValues = autoscalingv1beta1.ControlledValuesRequestsOnly
	}
	limited := resourcesOf("100m", "128Mi", "150m", "200Mi")
	births := map[string]*birth{
		"the scaler sizes them":              {want: sized},
		"the scaler is off":                  {scaler: off, reason: "UpdateModeOff", want: charted},
		"the scaler has been switched off":   {scalerLater: off, want: charted},
		"the scaler has been deleted":        {isDeletedLater: true, want: charted},
		"the scaler is suspended":            {scaler: suspended, reason: "Suspended", want: charted},
		"the scaler has been suspended":      {scalerLater: suspended, want: charted},
		"an older scaler is off":             {older: off, reason: "Conflicted", want: charted},
		"the scaler has come from another":   {scaler: other, scalerLater: web, want: charted},
		"the scaler has left for another":    {scalerLater: other, want: charted},
		"two scalers have been swapped":      {older: other, scalerLater: other, olderLater: web, want: charted},
		"containers have been added to them": {isInjected: true, want: sized},
		"their container has another name":   {podLater: func(pod *corev1.PodSpec) { pod.Containers[0].Name = "renamed" }, want: charted},
		"their limits are below the size": {
			scaler: requestsOnly, podLater: func(pod *corev1.PodSpec) { pod.Containers[0].Resources = limited }, want: limited,
		},
		"they have a size as a whole": {podLater: func(pod *corev1.PodSpec) { pod.Resources = sized.DeepCopy() }, want: charted},
	}
	injectContainers(t)
	namespaces := map[string]string{}
	for name, b := range births {
		namespaces[name] = b.prepare(t)
	}
	for name, b := range births {
		scaler := newScaler(namespaces[name], "web", "")
		if b.reason != "" {
			becomesApplied(t, scaler, metav1.ConditionFalse, b.reason)
		} else {
			becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
		}
	}

	born := map[string][]corev1.Pod{}
	whileManagerIsStopped(t, func() {
		for name, b := range births {
			b.change(t, namespaces[name])
		}
		for name := range births {
			born[name] = replacePods(t, deploymentOf(t, namespaces[name], "web"))
		}
	})

	for name, b := range births {
		t.Run(name, func(t *testing.T) {
			if b.isInjected {
				requireInjected(t, born[name])
			}
			requireResources(t, b.want, born[name])
		})
	}
}

// prepare creates the scalers and what they name, and returns the namespace.
func (b *birth) prepare(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t, injects, strconv.FormatBool(b.isInjected))
	for _, name := range []string{"web", "other"} {
		deployment := newDeployment(namespace, name, 1)
		deployment.Spec.Template.Spec.Containers[0].Resources = *charted.DeepCopy()
		create(t, deployment)
	}
	older, scaler := newPromptScaler(namespace, "web"), newPromptScaler(namespace, "web")
	older.Name = "older"
	for s, change := range map[*autoscalingv1beta1.VerticalScaler]func(*autoscalingv1beta1.VerticalScalerSpec){
		older: b.older, scaler: b.scaler,
	} {
		s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
		if change != nil {
			change(&s.Spec)
		}
	}
	if b.older != nil {
		create(t, older) // Of two of one second the name decides.
	}
	create(t, scaler)
	return namespace
}

// change changes what is to become of things while the manager is stopped.
func (b *birth) change(t *testing.T, namespace string) {
	t.Helper()
	for name, change := range map[string]func(*autoscalingv1beta1.VerticalScalerSpec){"web": b.scalerLater, "older": b.olderLater} {
		if change != nil {
			edit(t, newScaler(namespace, name, ""), func(s *autoscalingv1beta1.VerticalScaler) { change(&s.Spec) })
		}
	}
	if b.isDeletedLater {
		remove(t, newScaler(namespace, "web", ""))
	}
	if b.podLater != nil {
		edit(t, deploymentOf(t, namespace, "web"), func(d *appsv1.Deployment) { b.podLater(&d.Spec.Template.Spec) })
	}
}

// replacePods deletes a Deployment's pods and returns those that come in their place.
func replacePods(t *testing.T, deployment *appsv1.Deployment) []corev1.Pod {
	t.Helper()
	before := sets.New(names(podsIn(t, deployment.Namespace))...)
	require.NoError(t, env.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(deployment.Namespace)))
	var born []corev1.Pod
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, env.client.Get(context.Background(), client.ObjectKeyFromObject(deployment), deployment))
		require.Equal(c, deployment.Generation, deployment.Status.ObservedGeneration)
		require.Equal(c, *deployment.Spec.Replicas, deployment.Status.UpdatedReplicas)
		born = ownedPods(c, deployment)
		require.Len(c, born, int(*deployment.Spec.Replicas))
		require.False(c, before.HasAny(names(born)...), "pods of before are still there")
	})
	return born
}
