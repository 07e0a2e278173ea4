package verticalscaler

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/testenv"
)

const (
	// deniedByPolicy is the message of a Deployment whose pods a ValidatingAdmissionPolicy refuses.
	deniedByPolicy = `pods "web-6d4b75cb6d-x7k2p" is forbidden: ValidatingAdmissionPolicy 'max-cpu' with binding 'max-cpu' denied request: ` +
		`at most 200m`
	lacksCPU    = "0/3 nodes are available: 3 Insufficient cpu."
	lacksMemory = "0/3 nodes are available: 3 Insufficient memory."
)

// fallbackTest decides about fallbacks of a Deployment "web" with one container at any time, without
// an API server.
type fallbackTest struct {
	scaler      *autoscalingv1beta1.VerticalScaler
	deployment  *appsv1.Deployment
	pods        []corev1.Pod
	node        corev1.ResourceList // What the only node can allocate; nil if no node is known.
	scaledByHPA map[corev1.ResourceName]string
	recommended []autoscalingv1beta1.ContainerSizing
}

// newFallbackTest returns a test whose Deployment has requests, and for which large is recommended.
func newFallbackTest(template corev1.ResourceList) *fallbackTest {
	w := &fallbackTest{
		scaler: testenv.NewScaler("one", "web", "web"), deployment: testenv.NewDeployment("one", "web"),
		recommended: []autoscalingv1beta1.ContainerSizing{newSizing("web", large, nil)},
	}
	w.scaler.Status.DeploymentName = "web"
	w.deployment.Spec.Template.Spec.Containers = []corev1.Container{newContainer("web", template, nil)}
	return w
}

// addUnschedulable adds a pod that has waited for a node since a time.
func (w *fallbackTest) addUnschedulable(requests corev1.ResourceList, message string, since time.Time) *corev1.Pod {
	pod := testenv.NewPod("one", "web", fmt.Sprintf("aaaa%d", len(w.pods)))
	pod.Spec.Containers = []corev1.Container{newContainer("web", requests, nil)}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: message, LastTransitionTime: metav1.NewTime(since),
	}}
	w.pods = append(w.pods, *pod)
	return &w.pods[len(w.pods)-1]
}

// addRunning adds a running pod.
func (w *fallbackTest) addRunning(requests corev1.ResourceList) {
	pod := w.addUnschedulable(requests, "", time.Time{})
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
}

func (w *fallbackTest) setLastKnownGood(requests corev1.ResourceList) {
	w.scaler.Status.LastKnownGood = &autoscalingv1beta1.ObservedSize{
		Sizes: []autoscalingv1beta1.ContainerSizing{newSizing("web", requests, nil)},
	}
}

func (w *fallbackTest) scopeAt(now time.Time) *scope {
	s := newScope(w.scaler, now)
	s.deployment, s.pods, s.scaledByHPA = w.deployment, w.pods, w.scaledByHPA
	if w.node != nil {
		s.constraints.Nodes = sizing.NewNodes([]corev1.Node{{Status: corev1.NodeStatus{Allocatable: w.node}}}, nil)
	}
	return s
}

// at returns the fallback and the sizes of new pods at a time, and publishes them.
func (w *fallbackTest) at(now time.Time) (*autoscalingv1beta1.Fallback, []autoscalingv1beta1.ContainerSizing) {
	s := w.scopeAt(now)
	sizes, fallback := s.fallBack(w.recommended)
	w.scaler.Status.Sizing, w.scaler.Status.Fallback = sizes, fallback
	return fallback, sizes
}
