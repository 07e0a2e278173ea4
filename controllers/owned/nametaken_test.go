package controllers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// foreign returns a Deployment such as a Helm chart makes.
func foreign(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}
	all := map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: all},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

// lookalike returns a Deployment that is as an object asks for it, but without a controller.
func lookalike(t *testing.T, kind ownerKind, obj client.Object) *appsv1.Deployment {
	t.Helper()
	d, err := asDeployment(kind.desired(obj))
	require.NoError(t, err)
	d.OwnerReferences = nil
	d.Spec.Template.Spec.Containers[0].Image = "mine:1"
	return d
}

// forerunners is a Deployment of an object of the same kind and name as another, whose UID is not the same.
func forerunners(t *testing.T, kind ownerKind, obj client.Object) *appsv1.Deployment {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	before.SetUID("a-former-life")
	d, err := asDeployment(kind.desired(before))
	require.NoError(t, err)
	d.Spec.Template.Spec.Containers[0].Image = "mine:1"
	return d
}

// others are the Deployments of other people that an object may find under its name.
var others = map[string]func(*testing.T, ownerKind, client.Object) *appsv1.Deployment{
	"of a Helm chart": func(_ *testing.T, _ ownerKind, obj client.Object) *appsv1.Deployment {
		return foreign(obj.GetNamespace(), "box")
	},
	"looking like ours, of nobody":          lookalike,
	"of the same kind and name, other UID":  forerunners,
	"of a Helm chart, with our label added": withOurLabel,
}

func withOurLabel(_ *testing.T, _ ownerKind, obj client.Object) *appsv1.Deployment {
	d := foreign(obj.GetNamespace(), "box")
	d.Labels[managedByLabel] = managedByUpright
	return d
}

func TestOwnersLeaveSomebodyElsesDeploymentUntouched(t *testing.T) {
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
				d := create(t, other(t, kind, kind.newObject(namespace, "box")))
				before := refresh(t, d).DeepCopy()
				startManager(t, namespace)
				obj := create(t, kind.newObject(namespace, "box"))
				for _, size := range []int32{3, 1, 2} { // Each a pass.
					kind.resize(t, obj, size)
					status := kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
					assertCondition(t, status.Conditions, "Degraded", metav1.ConditionTrue, "DeploymentNameTaken")
					assertCondition(t, status.Conditions, "Progressing", metav1.ConditionFalse, "DeploymentNameTaken")
					assert.Zero(t, status.Replicas)
				}
				assertToldOnce(t, obj, corev1.EventTypeWarning, "ErrResourceExists")
				assert.Equal(t, before, refresh(t, d), "resourceVersion and all")
			})
		})
	}
}

func TestOwnersSayThatTheNameIsTakenOnceAndAwaitTheWatch(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		create(t, foreign(namespace, "box"))
		obj := create(t, kind.newObject(namespace, "box"))
		passes := kind.passesOver(obj, likeCached(t, interceptor.Funcs{}))
		for range 3 {
			result, err := passes.pass()
			require.NoError(t, err, "an error would be a retry")
			assert.Equal(t, ctrl.Result{}, result, "a timer would be a poll")
		}
		recorded := passes.events()
		require.Len(t, recorded, 1)
		assert.Contains(t, recorded[0], `Warning ErrResourceExists Deployment "box" exists`)
		assert.Contains(t, recorded[0], "Delete it or choose another name")
	})
}

func TestOwnersTakeTheNameAsSoonAsItIsFree(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		d := create(t, foreign(namespace, "box"))
		obj := create(t, kind.newObject(namespace, "box"))
		kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		require.NoError(t, env.Client.Delete(t.Context(), d))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.True(c, metav1.IsControlledBy(refresh(c, d), obj))
		}, soon, often)
		kind.is(t, obj, metav1.ConditionFalse, "RolloutInProgress")
		rollOut(t, d)
		kind.is(t, obj, metav1.ConditionTrue, "AsExpected")
		assertToldOnce(t, obj, corev1.EventTypeNormal, "Recovered")
	})
}

// TestOwnersGiveUpADeploymentThatIsTakenFromThem shows that a Deployment which an object had
// is not the object's any more once its owner reference is gone.
func TestOwnersGiveUpADeploymentThatIsTakenFromThem(t *testing.T) {
	forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
		startManager(t, namespace)
		obj := kind.bringUp(t, namespace, "box")
		d := deployment(t, namespace, "box")
		edit(t, d, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		before := refresh(t, d).DeepCopy()
		kind.resize(t, obj, 3)
		kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
		assert.Equal(t, before, refresh(t, d))
	})
}

// TestOwnersDoNotOverwriteADeploymentThatTheirCacheHasNotSeen makes passes whose reads say
// that there is no Deployment, as a cache does that is behind.
func TestOwnersDoNotOverwriteADeploymentThatTheirCacheHasNotSeen(t *testing.T) {
	for name, other := range map[string]func(*testing.T, ownerKind, client.Object) *appsv1.Deployment{
		"of a Helm chart":                      others["of a Helm chart"],
		"of the same kind and name, other UID": forerunners,
	} {
		t.Run(name, func(t *testing.T) {
			forEachOwner(t, func(t *testing.T, kind ownerKind, namespace string) {
				d := create(t, other(t, kind, kind.newObject(namespace, "box")))
				before := refresh(t, d).DeepCopy()
				obj := create(t, kind.newObject(namespace, "box"))
				behind := true
				passes := kind.passesOver(obj, likeCached(t, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						_, whole := obj.(*appsv1.Deployment)
						_, metadata := obj.(*metav1.PartialObjectMetadata)
						if behind && (whole || metadata) {
							return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name)
						}
						return c.Get(ctx, key, obj, opts...)
					},
				}))
				_, err := passes.pass()
				require.Error(t, err, "the API server refuses it")
				assert.Equal(t, before, refresh(t, d))
				assertCondition(t, kind.status(refresh(t, obj)).Conditions, "Ready", metav1.ConditionFalse, "DeploymentRefused")

				behind = false // The event that the cache gets then leads to the next pass.
				_, err = passes.pass()
				require.NoError(t, err)
				assert.Equal(t, before, refresh(t, d))
				assertCondition(t, kind.status(refresh(t, obj)).Conditions, "Ready", metav1.ConditionFalse, "DeploymentNameTaken")
			})
		})
	}
}

func TestOwnersOfOneNameAndNamespaceDoNotFight(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	startManager(t, namespace)
	busybox, memcached := ownerKinds[0], ownerKinds[1]
	first := busybox.bringUp(t, namespace, "box")
	d := deployment(t, namespace, "box")
	before := d.DeepCopy()
	second := create(t, memcached.newObject(namespace, "box"))
	memcached.is(t, second, metav1.ConditionFalse, "DeploymentNameTaken")
	assert.Equal(t, before, refresh(t, d))
	busybox.is(t, first, metav1.ConditionTrue, "AsExpected")
}

func TestOwnersTakeTheNameThatAnObjectOfAnotherKindFrees(t *testing.T) {
	t.Parallel()
	for i, kind := range ownerKinds {
		other := ownerKinds[(i+1)%len(ownerKinds)]
		t.Run(kind.name+" after "+other.name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			startManager(t, namespace)
			former := other.bringUp(t, namespace, "box")
			obj := create(t, kind.newObject(namespace, "box"))
			kind.is(t, obj, metav1.ConditionFalse, "DeploymentNameTaken")
			d := deployment(t, namespace, "box")
			require.NoError(t, env.Client.Delete(t.Context(), former))
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				collect(t, d, former)
				assert.True(c, metav1.IsControlledBy(refresh(c, d), obj))
			}, soon, often)
		})
	}
}

// collect does as the garbage collector does where the owner is gone: it deletes the
// Deployment, also one that a pass made which had not heard of the owner's end.
func collect(t *testing.T, d *appsv1.Deployment, owner client.Object) {
	t.Helper()
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d)
	if err == nil && metav1.IsControlledBy(d, owner) {
		err = env.Client.Delete(t.Context(), d, client.Preconditions{UID: &d.UID})
	}
	require.NoError(t, client.IgnoreNotFound(err))
}
