package controllers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofOne returns an object, of a kind, with a UID.
func ofOne(kind ownerKind, deployment string) client.Object {
	obj := kind.newObject("default", deployment)
	obj.SetUID("u1")
	return obj
}

func TestDeploymentsBearTheirNameReplicasAndOwner(t *testing.T) {
	t.Parallel()
	groups := map[string]string{"Busybox": "example.com/v1alpha1", "Memcached": "cache.example.com/v1alpha1", "Foo": "example.com/v1alpha1"}
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			owner := ofOne(kind, "box")
			d := kind.desired(owner)
			assert.Equal(t, "box", *d.Name)
			assert.Equal(t, "default", *d.Namespace)
			assert.Equal(t, int32(2), *d.Spec.Replicas)
			assert.Equal(t, "upright", d.Labels["app.kubernetes.io/managed-by"])
			require.Len(t, d.OwnerReferences, 1)
			assert.Equal(t, groups[kind.name], *d.OwnerReferences[0].APIVersion)
			assert.Equal(t, kind.name, *d.OwnerReferences[0].Kind)
			assert.Equal(t, owner.GetName(), *d.OwnerReferences[0].Name)
			assert.Equal(t, owner.GetUID(), *d.OwnerReferences[0].UID)
			assert.True(t, *d.OwnerReferences[0].Controller)
			assert.True(t, *d.OwnerReferences[0].BlockOwnerDeletion)

			*kind.size(owner) = new(int32(0))
			assert.Equal(t, int32(0), *kind.desired(owner).Spec.Replicas)
			*kind.size(owner) = nil
			assert.Equal(t, int32(1), *kind.desired(owner).Spec.Replicas)
		})
	}
}

func TestDeploymentsHaveTheContainerOfTheirKind(t *testing.T) {
	t.Parallel()
	type port struct {
		name string
		port int32
	}
	for _, test := range []struct {
		kind, container, image string
		command                []string
		ports                  []port
	}{
		{"Busybox", "busybox", "repo/image:1", []string{"sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"}, nil},
		{"Memcached", "memcached", "repo/image:1", []string{"memcached", "--memory-limit=64", "-o", "modern", "-v"}, []port{{"memcached", 11211}}},
		{"Foo", "nginx", "nginxinc/nginx-unprivileged:1.27.5-alpine", nil, []port{{"http", 8080}}},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			busybox, memcached := newBusybox("default", "box"), newMemcached("default", "box")
			busybox.Spec.Image, memcached.Spec.Image = "repo/image:1", "repo/image:1"
			d := map[string]*corev1ac.PodTemplateSpecApplyConfiguration{
				"Busybox":   busyboxDeployment(busybox).Spec.Template,
				"Memcached": memcachedDeployment(memcached).Spec.Template,
				"Foo":       fooDeployment(newFoo("default", "box")).Spec.Template,
			}[test.kind]
			require.Len(t, d.Spec.Containers, 1)
			container := d.Spec.Containers[0]
			assert.Equal(t, test.container, *container.Name)
			assert.Equal(t, test.image, *container.Image)
			assert.Equal(t, test.command, container.Command)
			var ports []port
			for _, p := range container.Ports {
				ports = append(ports, port{*p.Name, *p.ContainerPort})
			}
			assert.Equal(t, test.ports, ports)
		})
	}
}

func TestDeploymentsDeclareTheResourcesOfTheSpec(t *testing.T) {
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			owner := ofOne(kind, "box")
			requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7m")}
			limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("9Mi")}
			*kind.resources(owner) = corev1.ResourceRequirements{Requests: requests, Limits: limits}
			declared := kind.desired(owner).Spec.Template.Spec.Containers[0].Resources
			assert.Equal(t, requests, *declared.Requests)
			assert.Equal(t, limits, *declared.Limits)

			*kind.resources(owner) = corev1.ResourceRequirements{}
			declared = kind.desired(owner).Spec.Template.Spec.Containers[0].Resources
			assert.Nil(t, declared.Requests)
			assert.Nil(t, declared.Limits)
		})
	}
}

// TestSelectorsMatchTheirOwnPodsAndNoOther tries every Deployment of a namespace against every other's pods.
func TestSelectorsMatchTheirOwnPodsAndNoOther(t *testing.T) {
	t.Parallel()
	pods := map[string]labels.Set{
		// A Helm chart's usual labels, for releases named like ours.
		"Helm release of memcached": {"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "one", "app.kubernetes.io/managed-by": "Helm"},
		"Helm release of busybox":   {"app.kubernetes.io/name": "busybox", "app.kubernetes.io/instance": "one"},
		"Helm release of nginx":     {"app.kubernetes.io/name": "nginx", "app.kubernetes.io/instance": "one"},
		"pods without labels":       {},
	}
	selectors := map[string]labels.Selector{}
	for _, kind := range ownerKinds {
		for _, name := range []string{"one", "two"} {
			d := kind.desired(ofOne(kind, name))
			selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: d.Spec.Selector.MatchLabels})
			require.NoError(t, err)
			selectors[kind.name+" "+name] = selector
			pods[kind.name+" "+name] = d.Spec.Template.Labels
		}
	}
	// What a Helm release's own Deployments and Services select by, for releases named like ours.
	for _, app := range []string{"busybox", "memcached", "nginx"} {
		selectors["Helm release of "+app] = labels.SelectorFromSet(labels.Set{
			"app.kubernetes.io/name": app, "app.kubernetes.io/instance": "one",
		})
	}
	for owner, selector := range selectors {
		for of, set := range pods {
			assert.Equal(t, owner == of, selector.Matches(set), "selector of %s, pods of %s", owner, of)
		}
	}
}

// TestPodsMeetTheRestrictedPodSecurityStandard creates a pod of each kind in a namespace
// whose API server enforces the standard, and shows that the same pod is refused once it
// asks for more.
func TestPodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		enforce(t, namespace)
		applied, err := asDeployment(kind.desired(create(t, kind.newObject(namespace, "box"))))
		require.NoError(t, err)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "restricted", Labels: applied.Spec.Template.Labels},
			Spec:       applied.Spec.Template.Spec,
		}
		create(t, pod.DeepCopy())
		assert.Equal(t, corev1.PodQOSBurstable, refresh(t, pod).Status.QOSClass, "the default resources can be resized in place")

		lax := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lax"}, Spec: *applied.Spec.Template.Spec.DeepCopy()}
		lax.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		require.ErrorContains(t, env.Client.Create(t.Context(), lax), "violates PodSecurity")
	})
}

// enforce makes a namespace refuse pods that do not meet the restricted Pod Security Standard.
func enforce(t *testing.T, namespace string) {
	t.Helper()
	edit(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	})
}

// TestPodsAreHardened shows what goes beyond the standard.
func TestPodsAreHardened(t *testing.T) {
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			spec := kind.desired(ofOne(kind, "box")).Spec.Template.Spec
			assert.False(t, *spec.AutomountServiceAccountToken)
			assert.NotZero(t, *spec.SecurityContext.RunAsUser)
			assert.True(t, *spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
		})
	}
}
