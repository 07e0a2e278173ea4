package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeploymentWhosePodsCannotBeResizedIsRolledOutOnce(t *testing.T) {
	t.Parallel()
	requestsOnly := corev1.ResourceRequirements{Requests: sized.Requests}
	for name, c := range map[string]struct {
		answer   string
		has, get corev1.ResourceRequirements
	}{
		"since their nodes cannot":                          {"Infeasible", charted, sized},
		"since their quality of service class would change": {"Granted", corev1.ResourceRequirements{}, requestsOnly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			deployment := newChartedDeployment(namespace, 2, c.answer)
			deployment.Spec.Template.Spec.Containers[0].Resources = c.has
			create(t, deployment)
			settles(t, deployment)

			scaler := create(t, newPromptScaler(namespace, "web"))

			becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
			runsResources(t, deployment, c.get, 2)
			settles(t, deployment)
			assert.NotEmpty(t, deployment.Spec.Template.Annotations[restartedAt])
			assert.True(t, equality.Semantic.DeepEqual(c.has, deployment.Spec.Template.Spec.Containers[0].Resources))
			assert.Len(t, replicaSetsOf(t, namespace), 2, "the first and that of the one rollout")
			assert.Equal(t, 1, writtenForScalers(t, namespace, "deployments"))
			assert.Contains(t, eventsOf(t, scaler), "RolledOut")
		})
	}
}

// A GitOps tool applies what a repository says, again and again, whatever the cluster has.
func TestGitOpsLoopAndScalerDoNotFight(t *testing.T) {
	t.Parallel()
	for answer, rollouts := range map[string]int{"Granted": 0, "Infeasible": 1} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			desired := newChartedDeployment(namespace, 2, answer)
			desired.TypeMeta = metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}
			manifest, err := json.Marshal(desired)
			require.NoError(t, err)
			apply := func(t require.TestingT) { require.NoError(t, env.Apply(context.Background(), string(manifest))) }
			apply(t)
			scaler := create(t, newPromptScaler(namespace, "web"))

			eventually(t, func(c *assert.CollectT) {
				apply(c)
				requireCondition(c, refresh(c, scaler).Status.Conditions, "Applied", metav1.ConditionTrue, "Sized")
			})

			deployment := deploymentOf(t, namespace, "web")
			runsResources(t, deployment, sized, 2)
			settles(t, deployment)
			before := workloads(t, namespace)
			for range 3 {
				apply(t)
			}
			assert.Equal(t, before, workloads(t, namespace), "each with its UID and its resource version")
			assert.Equal(t, rollouts, writtenForScalers(t, namespace, "deployments"))
			assert.Equal(t, int64(1+rollouts), refresh(t, deployment).Generation)
			assert.Len(t, replicaSetsOf(t, namespace), 1+rollouts)
			assert.True(t, equality.Semantic.DeepEqual(charted, deployment.Spec.Template.Spec.Containers[0].Resources))
		})
	}
}

func TestScalerAndTheOwnerOfItsDeploymentSettle(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)
		before := deploymentOf(t, namespace, "app")

		scaler := create(t, newPromptScaler(namespace, "app"))

		becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
		becomesReady(t, owner)
		writes := func() int {
			requests, err := auditedRequests()
			require.NoError(t, err)
			count := 0
			for i := range requests {
				if requests[i].writes() && requests[i].ObjectRef.Namespace == namespace &&
					requests[i].ObjectRef.Resource != "verticalscalercheckpoints" { // Those tell what is measured.
					count++
				}
			}
			return count
		}
		settled := writes()
		readsUsage(t, env.manager, namespace, time.Now())
		assert.Equal(t, settled, writes(), "whatever is measured")
		for _, pod := range ownedPods(t, before) {
			requests := pod.Spec.Containers[0].Resources.Requests
			assert.Equal(t, "300m", requests.Cpu().String())
			assert.Equal(t, "400Mi", requests.Memory().String())
		}
		assert.Equal(t, before.Spec, deploymentOf(t, namespace, "app").Spec, "it was not even rolled out")
	})
}
