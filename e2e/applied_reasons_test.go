package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestPodsThatCannotBeResizedStayAsTheyAreUntilTheyCan(t *testing.T) {
	t.Parallel()
	type scaler = *autoscalingv1beta1.VerticalScaler
	setValues := func(values autoscalingv1beta1.ControlledValues) func(scaler) {
		return func(s scaler) { s.Spec.ContainerPolicies[0].ControlledValues = values }
	}
	// A node has 64 cores, and the pods have two containers.
	tooLarge := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("40"), corev1.ResourceMemory: *sized.Requests.Memory(),
	}
	for name, c := range map[string]struct {
		has, get corev1.ResourceRequirements
		answer   string
		quota    string
		scaler   func(scaler)
		reason   string
		message  string
		mend     func(scaler)
	}{
		"since they would not be best effort any more": {
			get: corev1.ResourceRequirements{Requests: sized.Requests}, answer: "Granted",
			reason: "QoSClassFixed", message: "roll the Deployment out anew",
			mend: func(s scaler) { s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout },
		},
		"since they would become guaranteed": {
			has:    corev1.ResourceRequirements{Requests: charted.Requests, Limits: sized.Requests},
			get:    resourcesOf("300m", "400Mi", "900m", "1250Mi"),
			answer: "Granted",
			scaler: setValues(autoscalingv1beta1.ControlledValuesRequestsOnly),
			reason: "QoSClassFixed", message: "requests and limits that differ",
			mend: setValues(autoscalingv1beta1.ControlledValuesRequestsAndLimits),
		},
		"since their nodes are too old": {
			has: charted, get: sized, answer: "Unsupported",
			reason: "ResizeUnsupported", message: "Kubernetes 1.33 or later",
		},
		"since they are larger than their nodes": {
			has: charted, get: sized, answer: "Granted",
			scaler: func(s scaler) { recommendAlways(s, tooLarge) },
			reason: "ResizeInfeasible", message: "lower maxAllowed.*node didn't have enough allocatable resources",
			mend: func(s scaler) { recommendAlways(s, sized.Requests) },
		},
		"since a quota has no room": {
			has: charted, get: resourcesOf("120m", "128Mi", "240m", "256Mi"), answer: "Granted",
			quota:  "500m",
			reason: "ResizeRefused", message: "exceeded quota",
			mend: func(s scaler) { recommendAlways(s, resourcesOf("120m", "128Mi", "0", "0").Requests) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			if c.quota != "" {
				createCPUQuota(t, namespace, c.quota)
			}
			deployment := newChartedDeployment(namespace, 2, c.answer)
			containers := &deployment.Spec.Template.Spec.Containers
			(*containers)[0].Resources = *c.has.DeepCopy()
			*containers = append(*containers, *(*containers)[0].DeepCopy())
			(*containers)[1].Name = "another"
			create(t, deployment)
			settles(t, deployment)
			scaler := newPromptScaler(namespace, "web")
			scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlace
			if c.scaler != nil {
				c.scaler(scaler)
			}
			create(t, scaler)

			becomesApplied(t, scaler, metav1.ConditionFalse, c.reason)

			assert.Regexp(t, `^2 of 2 pods .*`+c.message, conditionMessage(scaler, "Applied"))
			readsUsage(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			requireResources(t, c.has, ownedPods(t, deployment))
			assert.Zero(t, writtenForScalers(t, namespace, "pods/resize"))
			assert.Zero(t, writtenForScalers(t, namespace, "deployments"))
			pods := podsIn(t, namespace)
			for i := range pods {
				edit(t, &pods[i], func(p *corev1.Pod) { delete(p.Annotations, resizeAnswer) })
			}
			if c.mend != nil {
				edit(t, scaler, c.mend)
			}
			runsResources(t, deployment, c.get, 2)
			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
		})
	}
}

func TestGuaranteedPodsAreResizedInPlaceAndStayGuaranteed(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := newChartedDeployment(namespace, 2, "Granted")
	deployment.Spec.Template.Spec.Containers[0].Resources.Limits = charted.Requests
	create(t, deployment)
	settles(t, deployment)
	running := podsIn(t, namespace)

	scaler := create(t, newPromptScaler(namespace, "web"))

	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	resized := podsIn(t, namespace)
	requireResources(t, corev1.ResourceRequirements{Requests: sized.Requests, Limits: sized.Requests}, resized)
	assert.Equal(t, names(running), names(resized))
	assert.Equal(t, corev1.PodQOSGuaranteed, resized[0].Status.QOSClass)
}

func TestLoweredMemoryIsTakenInPlaceAndAppliedSaysWhereANodeCannot(t *testing.T) {
	t.Parallel()
	for answer, c := range map[string]struct {
		status metav1.ConditionStatus
		reason string
	}{
		"Granted": {metav1.ConditionTrue, "Sized"}, "Error": {metav1.ConditionFalse, "ResizeFailed"},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := newChartedDeployment(namespace, 2, answer)
			deployment.Spec.Template.Spec.Containers[0].Resources = *sized.DeepCopy()
			create(t, deployment)
			settles(t, deployment)
			running := podsIn(t, namespace)
			scaler := newPromptScaler(namespace, "web")
			recommendAlways(scaler, charted.Requests)

			create(t, scaler)

			becomesApplied(t, scaler, c.status, c.reason)
			requireResources(t, charted, podsIn(t, namespace))
			assert.Equal(t, names(running), names(podsIn(t, namespace)))
			assert.Equal(t, 2, writtenForScalers(t, namespace, "pods/resize"), "each pod was asked for once")
			assert.Zero(t, writtenForScalers(t, namespace, "deployments"))
		})
	}
}

// A container that restarts for a resize does so while its node has not finished, here as long
// as the node defers it.
func TestOnlyAShareOfThePodsHasAContainerRestartedAtATime(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := newChartedDeployment(namespace, 4, "Deferred")
	deployment.Spec.Template.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}
	create(t, deployment)
	settles(t, deployment)
	scaler := newPromptScaler(namespace, "web")
	scaler.Spec.Behavior.MaxRestartingPercent = 50
	create(t, scaler)

	for asked := range 4 {
		becomesApplied(t, scaler, metav1.ConditionFalse, "ResizeDeferred")
		var deferred []corev1.Pod
		eventually(t, func(c *assert.CollectT) {
			deferred = nil
			for _, pod := range podsIn(c, namespace) {
				if isDeferred(&pod) {
					deferred = append(deferred, pod)
				}
			}
			require.Len(c, deferred, min(2, 4-asked), "pods in which a container waits to be restarted")
		})
		readsUsage(t, env.manager, namespace, scaler.CreationTimestamp.Time)
		require.Equal(t, min(asked+2, 4), writtenForScalers(t, namespace, "pods/resize"))
		edit(t, &deferred[0], func(p *corev1.Pod) { delete(p.Annotations, resizeAnswer) })
		restarts(t, &deferred[0], "other", 1)
	}

	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	assert.Equal(t, 4, writtenForScalers(t, namespace, "pods/resize"))
	assert.Len(t, replicaSetsOf(t, namespace), 1)
}

// createCPUQuota limits what the pods of a namespace may request, and waits until the limit holds.
func createCPUQuota(t *testing.T, namespace, cpu string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cpu"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(cpu)}
	create(t, quota)
	eventually(t, func(c *assert.CollectT) { require.NotEmpty(c, refresh(c, quota).Status.Used) })
}

func isDeferred(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodResizePending {
			return true
		}
	}
	return false
}
