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

// creationCase is a case of what the admission policy gives the new pods of Deployment "web" while
// the manager is stopped.
type creationCase struct {
	// Changes to the specs of two scalers that are created while the manager runs. Both name "web" by
	// default. There is an older one only if it has a change.
	scaler, older func(*autoscalingv1beta1.VerticalScalerSpec)
	// The reason in the scaler's Applied condition before the manager stops, if it is False.
	reason string
	// Whether other admission policies add containers to the pods.
	isInjected bool
	// Changes to the specs while the manager is stopped.
	scalerLater, olderLater func(*autoscalingv1beta1.VerticalScalerSpec)

	want corev1.ResourceRequirements
}

// The test stops the manager, so it is not parallel.
func TestAdmissionPolicyFollowsSpecsWhileManagerIsStopped(t *testing.T) {
	type spec = autoscalingv1beta1.VerticalScalerSpec
	off := func(s *spec) { s.UpdateMode = autoscalingv1beta1.UpdateModeOff }
	web, other := func(s *spec) { s.DeploymentName = "web" }, func(s *spec) { s.DeploymentName = "other" }
	cases := map[string]*creationCase{
		"an older scaler is off":           {older: off, reason: "Conflicted", want: templateResources},
		"two scalers swap their targets":   {older: other, scalerLater: other, olderLater: web, want: templateResources},
		"other policies inject containers": {isInjected: true, want: recommendedResources},
	}
	injectContainers(t)
	namespaces := map[string]string{}
	for name, c := range cases {
		namespaces[name] = c.prepare(t)
	}
	for name, c := range cases {
		scaler := newScaler(namespaces[name], "web", "")
		if c.reason != "" {
			waitForApplied(t, scaler, metav1.ConditionFalse, c.reason)
		} else {
			waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
		}
	}

	created := map[string][]corev1.Pod{}
	withManagerStopped(t, func() {
		for name, c := range cases {
			c.change(t, namespaces[name])
		}
		for name := range cases {
			created[name] = replacePods(t, getDeployment(t, namespaces[name], "web"))
		}
	})

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.isInjected {
				requireInjected(t, created[name])
			}
			requireResources(t, c.want, created[name])
		})
	}
}

// prepare creates the case's scalers and Deployments, and returns their namespace.
func (c *creationCase) prepare(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t, labelInject, strconv.FormatBool(c.isInjected))
	for _, name := range []string{"web", "other"} {
		deployment := newDeployment(namespace, name, 1)
		deployment.Spec.Template.Spec.Containers[0].Resources = *templateResources.DeepCopy()
		create(t, deployment)
	}
	older, scaler := newImmediateScaler(namespace, "web"), newImmediateScaler(namespace, "web")
	older.Name = "older"
	for s, change := range map[*autoscalingv1beta1.VerticalScaler]func(*autoscalingv1beta1.VerticalScalerSpec){
		older: c.older, scaler: c.scaler,
	} {
		s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
		if change != nil {
			change(&s.Spec)
		}
	}
	if c.older != nil {
		create(t, older) // If both are created in the same second, "older" wins by its name.
	}
	create(t, scaler)
	return namespace
}

// change makes the changes that the case has for the time when the manager is stopped.
func (c *creationCase) change(t *testing.T, namespace string) {
	t.Helper()
	for name, change := range map[string]func(*autoscalingv1beta1.VerticalScalerSpec){"web": c.scalerLater, "older": c.olderLater} {
		if change != nil {
			edit(t, newScaler(namespace, name, ""), func(s *autoscalingv1beta1.VerticalScaler) { change(&s.Spec) })
		}
	}
}

// replacePods deletes all pods of a namespace and returns the new pods of one Deployment.
func replacePods(t *testing.T, deployment *appsv1.Deployment) []corev1.Pod {
	t.Helper()
	before := sets.New(names(listPods(t, deployment.Namespace))...)
	require.NoError(t, env.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(deployment.Namespace)))
	var created []corev1.Pod
	eventually(t, func(c *assert.CollectT) {
		require.NoError(c, env.client.Get(context.Background(), client.ObjectKeyFromObject(deployment), deployment))
		require.Equal(c, deployment.Generation, deployment.Status.ObservedGeneration)
		require.Equal(c, *deployment.Spec.Replicas, deployment.Status.UpdatedReplicas)
		created = ownedPods(c, deployment)
		require.Len(c, created, int(*deployment.Spec.Replicas))
		require.False(c, before.HasAny(names(created)...), "a deleted pod still exists")
	})
	return created
}
