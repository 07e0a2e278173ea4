package e2e_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

func TestHelmUpgradeKeepsSizesThatWereAppliedInPlace(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		helm("install", "web", chart)
		release := getDeployment(t, namespace, "web")
		waitForSettled(t, release)
		scaler := create(t, newImmediateScaler(namespace, "web"))
		waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
		waitForSettled(t, release)
		before := workloadVersions(t, namespace)

		helm("upgrade", "web", chart)

		assert.Equal(t, before, workloadVersions(t, namespace), "Helm changed nothing")
		requireResources(t, recommendedResources, listPods(t, namespace))
		requireInstalledTemplate(t, release, helm("get", "manifest", "web"))
		helm("upgrade", "web", chart, "--set", "image.tag=upgraded")
		waitForSettled(t, release)
		waitForPods(t, release, 2)
		requireResources(t, recommendedResources, listPods(t, namespace))
		requireInstalledTemplate(t, release, helm("get", "manifest", "web"))
		waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
		assert.Equal(t, 2, countScalerWrites(t, namespace, "pods/resize"), "the pods of the upgrade were sized at creation")
		assert.Zero(t, countScalerWrites(t, namespace, "deployments"))
	})
}

func TestHelmUpgradeAfterScalersRolloutStartsNoOther(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		infeasible := []string{"--set", `podAnnotations.simulation\.upright\.example\.com/resize=Infeasible`}
		helm(append([]string{"install", "web", chart}, infeasible...)...)
		release := getDeployment(t, namespace, "web")
		waitForSettled(t, release)
		scaler := create(t, newImmediateScaler(namespace, "web"))
		waitForApplied(t, scaler, metav1.ConditionTrue, "Sized")
		waitForResources(t, release, recommendedResources, 2)
		waitForSettled(t, release)
		rolledOut := release.Spec.Template.Annotations[annotationRestartedAt]
		require.NotEmpty(t, rolledOut)
		before, sets := workloadVersions(t, namespace), replicaSetNames(t, namespace)

		helm(append([]string{"upgrade", "web", chart}, infeasible...)...)

		assert.Equal(t, before, workloadVersions(t, namespace), "Helm changed nothing")
		helm(append([]string{"upgrade", "web", chart, "--set", "replicas=3"}, infeasible...)...)
		waitForSettled(t, release)
		waitForResources(t, release, recommendedResources, 3)
		assert.Equal(t, sets, replicaSetNames(t, namespace), "no other rollout")
		assert.Equal(t, rolledOut, release.Spec.Template.Annotations[annotationRestartedAt])
		requireInstalledTemplate(t, release, helm("get", "manifest", "web"))
		assert.Equal(t, 1, countScalerWrites(t, namespace, "deployments"))
	})
}

// requireInstalledTemplate requires that a release's Deployment has the pod template that Helm
// installed. Only the rollout's annotation may differ.
func requireInstalledTemplate(t *testing.T, release *appsv1.Deployment, manifest string) {
	t.Helper()
	var installed appsv1.Deployment
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &installed))
	want, live := &installed.Spec.Template, refresh(t, release).Spec.Template.DeepCopy()
	delete(live.Annotations, annotationRestartedAt)
	assert.Equal(t, want.Labels, live.Labels)
	assert.Equal(t, want.Annotations, live.Annotations)
	require.Len(t, live.Spec.Containers, 1)
	assert.Equal(t, want.Spec.Containers[0].Image, live.Spec.Containers[0].Image)
	assert.Equal(t, want.Spec.Containers[0].Resources, live.Spec.Containers[0].Resources)
}

// The test stops the manager, so it is not parallel.
func TestHelmReleasePodsAreSizedAtCreationWhileManagerIsStopped(t *testing.T) {
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	for _, ns := range []string{namespace, elsewhere} {
		for _, name := range []string{"web", "web-api"} {
			_, err := env.Helm(t.Context(), 4, "install", name, chart, "--namespace", ns)
			require.NoError(t, err)
		}
	}
	scaler := newImmediateScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	waitForApplied(t, scaler, metav1.ConditionTrue, "SizedAtCreation")
	release := getDeployment(t, namespace, "web")
	running := ownedPods(t, release)
	requireResources(t, templateResources, running)
	require.Len(t, running, 2)

	bare, pods := bareCopy(&running[0]), map[string][]corev1.Pod{}
	withManagerStopped(t, func() {
		for _, ns := range []string{namespace, elsewhere} {
			kubectl(t, ns, "delete", "pods", "--all")
			kubectl(t, ns, "scale", "deployment", "--all", "--replicas", "3")
		}
		create(t, bare)
		eventually(t, func(c *assert.CollectT) {
			for _, ns := range []string{namespace, elsewhere} {
				for _, name := range []string{"web", "web-api"} {
					pods[ns+"/"+name] = ownedPods(c, getDeployment(c, ns, name))
					require.Len(c, pods[ns+"/"+name], 3)
				}
			}
		})
	})

	requireResources(t, recommendedResources, pods[namespace+"/web"])
	requireResources(t, templateResources, pods[namespace+"/web-api"])
	requireResources(t, templateResources, pods[elsewhere+"/web"])
	requireResources(t, templateResources, pods[elsewhere+"/web-api"])
	requireResources(t, templateResources, []corev1.Pod{*refresh(t, bare)})
}

// bareCopy returns a copy of a pod that no ReplicaSet controls.
func bareCopy(pod *corev1.Pod) *corev1.Pod {
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-bare", Labels: maps.Clone(pod.Labels)}}
	pod.Spec.DeepCopyInto(&bare.Spec)
	bare.Spec.NodeName = ""
	bare.Labels["app.kubernetes.io/instance"] = "bare" // Otherwise the ReplicaSet adopts the pod.
	return bare
}
