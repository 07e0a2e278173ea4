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

func TestHelmUpgradeAfterPodsWereResizedInPlaceKeepsTheirSizes(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		helm("install", "web", chart)
		release := deploymentOf(t, namespace, "web")
		settles(t, release)
		scaler := create(t, newPromptScaler(namespace, "web"))
		becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
		settles(t, release)
		before := workloads(t, namespace)

		helm("upgrade", "web", chart)

		assert.Equal(t, before, workloads(t, namespace), "nothing that Helm applies had changed")
		requireResources(t, sized, podsIn(t, namespace))
		requireAsCharted(t, release, helm("get", "manifest", "web"))
		helm("upgrade", "web", chart, "--set", "image.tag=upgraded")
		settles(t, release)
		runsPodsOf(t, release, 2)
		requireResources(t, sized, podsIn(t, namespace))
		requireAsCharted(t, release, helm("get", "manifest", "web"))
		becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
		assert.Equal(t, 2, writtenForScalers(t, namespace, "pods/resize"), "the upgrade's pods were born so")
		assert.Zero(t, writtenForScalers(t, namespace, "deployments"))
	})
}

func TestHelmUpgradeAfterARolloutForAScalerStartsNoOther(t *testing.T) {
	eachHelm(t, func(t *testing.T, namespace string, helm func(args ...string) string) {
		infeasible := []string{"--set", `podAnnotations.simulation\.upright\.example\.com/resize=Infeasible`}
		helm(append([]string{"install", "web", chart}, infeasible...)...)
		release := deploymentOf(t, namespace, "web")
		settles(t, release)
		scaler := create(t, newPromptScaler(namespace, "web"))
		becomesApplied(t, scaler, metav1.ConditionTrue, "Sized")
		runsResources(t, release, sized, 2)
		settles(t, release)
		rolledOut := release.Spec.Template.Annotations[restartedAt]
		require.NotEmpty(t, rolledOut)
		before, sets := workloads(t, namespace), replicaSetsOf(t, namespace)

		helm(append([]string{"upgrade", "web", chart}, infeasible...)...)

		assert.Equal(t, before, workloads(t, namespace), "nothing that Helm applies had changed")
		helm(append([]string{"upgrade", "web", chart, "--set", "replicas=3"}, infeasible...)...)
		settles(t, release)
		runsResources(t, release, sized, 3)
		assert.Equal(t, sets, replicaSetsOf(t, namespace), "no other rollout")
		assert.Equal(t, rolledOut, release.Spec.Template.Annotations[restartedAt])
		requireAsCharted(t, release, helm("get", "manifest", "web"))
		assert.Equal(t, 1, writtenForScalers(t, namespace, "deployments"))
	})
}

// requireAsCharted requires that a release's Deployment has the pod template that Helm
// installed, but for the time of a rollout.
func requireAsCharted(t *testing.T, release *appsv1.Deployment, manifest string) {
	t.Helper()
	var installed appsv1.Deployment
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &installed))
	want, live := &installed.Spec.Template, refresh(t, release).Spec.Template.DeepCopy()
	delete(live.Annotations, restartedAt)
	assert.Equal(t, want.Labels, live.Labels)
	assert.Equal(t, want.Annotations, live.Annotations)
	require.Len(t, live.Spec.Containers, 1)
	assert.Equal(t, want.Spec.Containers[0].Image, live.Spec.Containers[0].Image)
	assert.Equal(t, want.Spec.Containers[0].Resources, live.Spec.Containers[0].Resources)
}

// It stops the manager, so it is not parallel.
func TestPodsOfAHelmReleaseAreBornAtTheRecommendedSizeWhileTheManagerIsStopped(t *testing.T) {
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	for _, ns := range []string{namespace, elsewhere} {
		for _, name := range []string{"web", "web-api"} {
			_, err := env.Helm(t.Context(), 4, "install", name, chart, "--namespace", ns)
			require.NoError(t, err)
		}
	}
	scaler := newPromptScaler(namespace, "web")
	scaler.Spec.UpdateMode = autoscalingv1beta1.UpdateModeInitial
	create(t, scaler)
	becomesApplied(t, scaler, metav1.ConditionTrue, "SizedAtBirth")
	release := deploymentOf(t, namespace, "web")
	running := ownedPods(t, release)
	requireResources(t, charted, running)
	require.Len(t, running, 2)

	bare, sizes := bareCopy(&running[0]), map[string][]corev1.Pod{}
	whileManagerIsStopped(t, func() {
		for _, ns := range []string{namespace, elsewhere} {
			kubectl(t, ns, "delete", "pods", "--all")
			kubectl(t, ns, "scale", "deployment", "--all", "--replicas", "3")
		}
		create(t, bare)
		eventually(t, func(c *assert.CollectT) {
			for _, ns := range []string{namespace, elsewhere} {
				for _, name := range []string{"web", "web-api"} {
					pods := ownedPods(c, deploymentOf(c, ns, name))
					require.Len(c, pods, 3)
					sizes[ns+"/"+name] = pods
				}
			}
		})
	})

	requireResources(t, sized, sizes[namespace+"/web"])
	requireResources(t, charted, sizes[namespace+"/web-api"])
	requireResources(t, charted, sizes[elsewhere+"/web"])
	requireResources(t, charted, sizes[elsewhere+"/web-api"])
	requireResources(t, charted, []corev1.Pod{*refresh(t, bare)})
}

// bareCopy returns a pod that looks like another, and that no ReplicaSet controls.
func bareCopy(pod *corev1.Pod) *corev1.Pod {
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-bare", Labels: maps.Clone(pod.Labels)}}
	pod.Spec.DeepCopyInto(&bare.Spec)
	bare.Spec.NodeName = ""
	bare.Labels["app.kubernetes.io/instance"] = "bare" // Else the ReplicaSet would adopt it.
	return bare
}
