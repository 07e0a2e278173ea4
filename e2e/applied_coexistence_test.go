package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A GitOps tool applies the manifests of a repository repeatedly.
func TestGitOpsLoopAndScalerDoNotFight(t *testing.T) {
	t.Parallel()
	for answer, rollouts := range map[string]int{"Granted": 0, "Infeasible": 1} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			desired := newWebDeployment(namespace, 2, answer)
			desired.TypeMeta = metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}
			manifest, err := json.Marshal(desired)
			require.NoError(t, err)
			apply := func(t require.TestingT) { require.NoError(t, env.Apply(context.Background(), string(manifest))) }
			apply(t)
			scaler := create(t, newImmediateScaler(namespace, "web"))

			eventually(t, func(c *assert.CollectT) {
				apply(c)
				requireCondition(c, refresh(c, scaler).Status.Conditions, "Applied", metav1.ConditionTrue, "Sized")
			})

			deployment := getDeployment(t, namespace, "web")
			waitForResources(t, deployment, recommendedResources, 2)
			waitForSettled(t, deployment)
			before := workloadVersions(t, namespace)
			for range 3 {
				apply(t)
			}
			assert.Equal(t, before, workloadVersions(t, namespace), "UIDs and resource versions")
			assert.Equal(t, rollouts, countScalerWrites(t, namespace, "deployments"))
			assert.Equal(t, int64(1+rollouts), refresh(t, deployment).Generation)
			assert.Len(t, replicaSetNames(t, namespace), 1+rollouts)
			assert.True(t, equality.Semantic.DeepEqual(templateResources, deployment.Spec.Template.Spec.Containers[0].Resources))
		})
	}
}

func TestScalerAndTheOwnerOfItsDeploymentDoNotFight(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		namespace := newNamespace(t)
		owner := k.newOwner(namespace, "app", 1)
		createReady(t, owner)
		before := getDeployment(t, namespace, "app")

		scaler := create(t, newImmediateScaler(namespace, "app"))

		waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
		waitForReady(t, owner)
		waitForSizeTable(t, scaler)
		countWrites := func() int {
			requests, err := auditedRequests()
			require.NoError(t, err)
			count := 0
			for i := range requests {
				if requests[i].writes() && requests[i].ObjectRef.Namespace == namespace &&
					requests[i].ObjectRef.Resource != "verticalscalercheckpoints" { // The usage changes them.
					count++
				}
			}
			return count
		}
		settled := countWrites()
		waitForUsageRead(t, env.manager, namespace, time.Now())
		assert.Equal(t, settled, countWrites(), "writes after the next readings of usage")
		for _, pod := range ownedPods(t, before) {
			requests := pod.Spec.Containers[0].Resources.Requests
			assert.Equal(t, "300m", requests.Cpu().String())
			assert.Equal(t, "400Mi", requests.Memory().String())
		}
		assert.Equal(t, before.Spec, getDeployment(t, namespace, "app").Spec, "nor was the Deployment rolled out")
	})
}
