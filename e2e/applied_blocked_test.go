package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPodsThatCannotBeResizedAreUnchangedUntilTheCauseIsGone(t *testing.T) {
	t.Parallel()
	type scaler = *autoscalingv1beta1.VerticalScaler
	for name, c := range map[string]struct {
		// has is the pods' size before, and want their size after the cause is gone.
		has, want corev1.ResourceRequirements
		answer    string
		prepare   func(scaler)
		reason    string
		message   string
		// fix removes the cause. If there is none, the nodes' answer is the cause.
		fix func(scaler)
	}{
		"best effort pods have a fixed QoS class": {
			want: corev1.ResourceRequirements{Requests: recommendedResources.Requests}, answer: "Granted",
			reason: "QoSClassFixed",
			fix:    func(s scaler) { s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout },
		},
		"the nodes are too old": {
			has: templateResources, want: recommendedResources, answer: "Unsupported",
			reason: "ResizeUnsupported",
		},
		"both containers together are larger than their node": { // It has 64 cores.
			has: templateResources, want: recommendedResources, answer: "Granted",
			prepare: func(s scaler) { recommendFixed(s, resourceList("40", "400Mi")) },
			reason:  "ResizeInfeasible", message: "node didn't have enough allocatable resources",
			fix: func(s scaler) { recommendFixed(s, recommendedResources.Requests) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := newWebDeployment(namespace, 2, c.answer)
			deployment.Spec.Template.Spec.Containers[0].Resources = *c.has.DeepCopy()
			addSecondContainer(deployment)
			create(t, deployment)
			waitForSettled(t, deployment)
			scaler := newImmediateScaler(namespace, "web")
			scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace
			if c.prepare != nil {
				c.prepare(scaler)
			}
			create(t, scaler)

			waitForApplied(t, scaler, metav1.ConditionFalse, c.reason)

			assert.Contains(t, conditionMessage(scaler, "Applied"), c.message)
			waitForUsageRead(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			requireResources(t, c.has, ownedPods(t, deployment))
			assert.Zero(t, countScalerWrites(t, namespace, "pods/resize"))
			assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
			pods := listPods(t, namespace)
			for i := range pods {
				edit(t, &pods[i], func(p *corev1.Pod) { delete(p.Annotations, annotationResize) })
			}
			if c.fix != nil {
				edit(t, scaler, c.fix)
			}
			waitForResources(t, deployment, c.want, 2)
			waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
		})
	}
}
