package owned

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

	containerapi "example.com/upright/apis/container"
	"example.com/upright/internal/testenv"
)

// newOwner returns an object with a UID.
func newOwner(kind ownerKind, deployment string) client.Object {
	obj := kind.newObject("default", deployment)
	obj.SetUID("u1")
	return obj
}

func TestDeploymentHasNameReplicasAndOwnerReference(t *testing.T) {
	t.Parallel()
	groups := map[string]string{"Busybox": "example.com/v1alpha1", "Memcached": "cache.example.com/v1alpha1", "Foo": "example.com/v1alpha1"}
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			owner := newOwner(kind, "web")
			d := kind.desired(owner)
			assert.Equal(t, "web", *d.Name)
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

func TestDeploymentHasContainerOfItsKind(t *testing.T) {
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
			busybox, memcached := newBusybox("default", "web"), newMemcached("default", "web")
			busybox.Spec.Image, memcached.Spec.Image = "repo/image:1", "repo/image:1"
			template := map[string]*corev1ac.PodTemplateSpecApplyConfiguration{
				"Busybox":   busyboxDeployment(busybox).Spec.Template,
				"Memcached": memcachedDeployment(memcached).Spec.Template,
				"Foo":       fooDeployment(newFoo("default", "web")).Spec.Template,
			}[test.kind]
			require.Len(t, template.Spec.Containers, 1)
			container := template.Spec.Containers[0]
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

func TestDeploymentHasResourcesOfTheSpec(t *testing.T) {
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			owner := newOwner(kind, "web")
			cpu, memory := resource.MustParse("7m"), resource.MustParse("9Mi")
			*kind.resources(owner) = containerapi.Resources{Requests: containerapi.Amounts{CPU: &cpu}, Limits: containerapi.Amounts{Memory: &memory}}
			declared := kind.desired(owner).Spec.Template.Spec.Containers[0].Resources
			assert.Equal(t, corev1.ResourceList{corev1.ResourceCPU: cpu}, *declared.Requests)
			assert.Equal(t, corev1.ResourceList{corev1.ResourceMemory: memory}, *declared.Limits)

			*kind.resources(owner) = containerapi.Resources{}
			declared = kind.desired(owner).Spec.Template.Spec.Containers[0].Resources
			assert.Nil(t, declared.Requests)
			assert.Nil(t, declared.Limits)
		})
	}
}

// TestSelectorMatchesOnlyItsOwnPods compares the selector of each Deployment with the pods of all
// Deployments in a namespace.
func TestSelectorMatchesOnlyItsOwnPods(t *testing.T) {
	t.Parallel()
	pods := map[string]labels.Set{
		// The usual labels of Helm charts, with our Deployments' names as release names.
		"Helm release of memcached": {"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "one", "app.kubernetes.io/managed-by": "Helm"},
		"Helm release of busybox":   {"app.kubernetes.io/name": "busybox", "app.kubernetes.io/instance": "one"},
		"Helm release of nginx":     {"app.kubernetes.io/name": "nginx", "app.kubernetes.io/instance": "one"},
		"pods without labels":       {},
	}
	selectors := map[string]labels.Selector{}
	for _, kind := range ownerKinds {
		for _, name := range []string{"one", "two"} {
			d := kind.desired(newOwner(kind, name))
			selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: d.Spec.Selector.MatchLabels})
			require.NoError(t, err)
			selectors[kind.name+" "+name] = selector
			pods[kind.name+" "+name] = d.Spec.Template.Labels
		}
	}
	// The usual selectors of the Deployments and Services of such releases.
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

// TestPodsMeetTheRestrictedPodSecurityStandard creates a pod of each kind in a namespace that
// enforces the standard. To show that it is enforced, the same pod with more privileges is
// rejected.
func TestPodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind ownerKind, namespace string) {
		enforceRestricted(t, namespace)
		applied, err := asDeployment(kind.desired(testenv.Create(t, env, kind.newObject(namespace, "web"))))
		require.NoError(t, err)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "restricted", Labels: applied.Spec.Template.Labels},
			Spec:       applied.Spec.Template.Spec,
		}
		testenv.Create(t, env, pod.DeepCopy())
		assert.Equal(t, corev1.PodQOSBurstable, testenv.Refresh(t, env, pod).Status.QOSClass, "the default resources can be resized in place")

		privileged := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"}, Spec: *applied.Spec.Template.Spec.DeepCopy()}
		privileged.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		require.ErrorContains(t, env.Client.Create(t.Context(), privileged), "violates PodSecurity")
	})
}

// enforceRestricted makes a namespace reject pods that do not meet the restricted Pod Security
// Standard.
func enforceRestricted(t *testing.T, namespace string) {
	t.Helper()
	testenv.Edit(t, env, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	})
}

// TestPodsAreHardenedBeyondTheStandard shows what the restricted standard does not require.
func TestPodsAreHardenedBeyondTheStandard(t *testing.T) {
	t.Parallel()
	for _, kind := range ownerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			spec := kind.desired(newOwner(kind, "web")).Spec.Template.Spec
			assert.False(t, *spec.AutomountServiceAccountToken)
			assert.NotZero(t, *spec.SecurityContext.RunAsUser)
			assert.True(t, *spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
		})
	}
}
