package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestScalerConflictsWithAnOlderOneUntilThatIsGoneOrTurnsAway(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, newDeployment(namespace, "web", 0))
	create(t, newDeployment(namespace, "other", 0))
	older, younger := newScaler(namespace, "a", "web"), newScaler(namespace, "b", "web")
	create(t, older)
	create(t, younger)

	acts := func(scaler *autoscalingv1beta1.VerticalScaler) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			refresh(c, scaler)
			require.Equal(c, scaler.Generation, scaler.Status.ObservedGeneration)
			requireCondition(c, scaler.Status.Conditions, "Conflicted", metav1.ConditionFalse, "NotConflicted")
			requireCondition(c, scaler.Status.Conditions, "Ready", metav1.ConditionFalse, "NoPods")
		})
	}
	conflicts := func(scaler *autoscalingv1beta1.VerticalScaler, with string) {
		t.Helper()
		eventually(t, func(c *assert.CollectT) {
			refresh(c, scaler)
			requireCondition(c, scaler.Status.Conditions, "Conflicted", metav1.ConditionTrue, "Conflicted")
			requireCondition(c, scaler.Status.Conditions, "TargetFound", metav1.ConditionTrue, "DeploymentFound")
			requireCondition(c, scaler.Status.Conditions, "Ready", metav1.ConditionFalse, "Conflicted")
			require.Equal(c, `VerticalScaler "`+with+`" is older and acts on Deployment "web": delete one of the two.`,
				meta.FindStatusCondition(scaler.Status.Conditions, "Conflicted").Message)
		})
	}

	acts(older)
	conflicts(younger, "a")
	edit(t, older, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "other" })
	acts(younger)
	acts(older)
	edit(t, older, func(s *autoscalingv1beta1.VerticalScaler) { s.Spec.DeploymentName = "web" })
	conflicts(younger, "a")
	acts(older)
	remove(t, older)
	acts(younger)
}
