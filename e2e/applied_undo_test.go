package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestScalerThatIsOffOrSuspendedLeavesRunningPodsAndNewOnesAreBornAsTheirTemplateSays(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		undo, redo func(*autoscalingv1beta1.VerticalScaler)
	}{
		"UpdateModeOff": {
			func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeOff },
			func(s *autoscalingv1beta1.VerticalScaler) {
				s.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInPlaceOrRollout
			},
		},
		"Suspended": {
			func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = true },
			func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.Suspend = false },
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := create(t, newChartedDeployment(namespace, 2, "Granted"))
			scaler := create(t, newPromptScaler(namespace, "web"))
			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			runsResources(t, deployment, sized, 2)
			settles(t, deployment)
			before := workloads(t, namespace)

			edit(t, scaler, c.undo)

			becomesApplied(t, scaler, metav1.ConditionFalse, reason)
			readsUsage(t, env.manager, namespace, scaler.CreationTimestamp.Time)
			assert.Equal(t, before, workloads(t, namespace), "each with its UID and its resource version")
			requireResources(t, charted, replacePods(t, deployment))
			edit(t, scaler, c.redo)
			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			runsResources(t, deployment, sized, 2)
		})
	}
}

func TestPinnedScalerKeepsTheSizeThatPodsHaveAndGetUntilItIsReleased(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	deployment := create(t, newChartedDeployment(namespace, 2, "Granted"))
	scaler := create(t, newPromptScaler(namespace, "web"))
	becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
	kubectl(t, namespace, "annotate", "verticalscaler", "web", autoscalingv1beta1.AnnotationPin+"=true")

	edit(t, scaler, func(s *autoscalingv1beta1.VerticalScaler) { recommendAlways(s, charted.Requests) })

	eventually(t, func(c *assert.CollectT) {
		refresh(c, scaler)
		assert.Equal(c, scaler.Generation, scaler.Status.ObservedGeneration)
		assert.Equal(c, charted.Requests.Memory().String(), memoryOf(scaler.Status.PodTarget))
		assert.Contains(c, conditionMessage(scaler, "Applied"), "pinned")
	})
	requireResources(t, sized, ownedPods(t, deployment))
	requireResources(t, sized, replacePods(t, deployment))
	kubectl(t, namespace, "annotate", "verticalscaler", "web", autoscalingv1beta1.AnnotationPin+"-")
	runsResources(t, deployment, charted, 2)
}
