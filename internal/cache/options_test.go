package cache

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/apis"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
)

// cacheOf runs a cache of the manager's options with informers for some objects.
func cacheOf(t *testing.T, namespaces []string, of ...client.Object) cache.Cache {
	t.Helper()
	options := Options(namespaces)
	options.Scheme = apis.NewScheme()
	c, err := cache.New(env.Config, options)
	require.NoError(t, err)
	for _, obj := range of {
		_, err := c.GetInformer(t.Context(), obj, cache.BlockUntilSynced(false))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-stopped)
	})
	require.True(t, c.WaitForCacheSync(t.Context()))
	return c
}

func TestTrimKeepsOfForeignMetadataWhatIsReadAndDropsTheRest(t *testing.T) {
	t.Parallel()
	deleted := metav1.Now()
	full := metav1.ObjectMeta{
		Name: "web", GenerateName: "w", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.Now(), DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: new(int64(1)),
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{Name: "owner", UID: "u2"}},
		Finalizers:      []string{"f"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm"}},
	}
	out, err := new(Trimmer).Trim(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: full})
	require.NoError(t, err)
	assert.Equal(t, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 3,
			DeletionTimestamp: &deleted, OwnerReferences: full.OwnerReferences,
		},
	}, out)
}

func TestTrimDropsOnlyTheManagedFieldsOfWholeObjects(t *testing.T) {
	t.Parallel()
	d := foreign("default", "web")
	want := d.DeepCopy()
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm"}}
	out, err := new(Trimmer).Trim(d)
	require.NoError(t, err)
	assert.Equal(t, want, out)
}

func TestTrimLetsPassWhatIsNoObject(t *testing.T) {
	t.Parallel()
	out, err := new(Trimmer).Trim("text")
	require.NoError(t, err)
	assert.Equal(t, "text", out)
}

func TestCacheHoldsWholeOnlyOurDeploymentsAndTheMetadataOfAll(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	d := create(t, foreign(namespace, "theirs"))
	ours := create(t, withOurLabel(t, ownerKinds[0], newBusybox(namespace, "box")))
	c := cacheOf(t, []string{namespace}, &appsv1.Deployment{}, NewDeploymentMetadata())

	var whole appsv1.DeploymentList
	require.NoError(t, c.List(t.Context(), &whole))
	require.Len(t, whole.Items, 1)
	assert.Equal(t, ours.Name, whole.Items[0].Name)
	assert.Equal(t, ours.Spec, whole.Items[0].Spec)
	assert.Empty(t, whole.Items[0].ManagedFields)

	metadata := func(d *appsv1.Deployment) *metav1.PartialObjectMetadata {
		found := NewDeploymentMetadata()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(d), found))
		return found
	}
	assert.Equal(t, d.UID, metadata(d).UID)
	assert.Equal(t, ours.UID, metadata(ours).UID)
	assert.Empty(t, metadata(d).Labels)
	assert.Empty(t, metadata(d).ManagedFields)
}

func TestCacheFollowsOurLabel(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	d := create(t, foreign(namespace, "web"))
	c := cacheOf(t, []string{namespace}, &appsv1.Deployment{})
	holds := func(count int) {
		t.Helper()
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			var whole appsv1.DeploymentList
			assert.NoError(collect, c.List(context.Background(), &whole))
			assert.Len(collect, whole.Items, count)
		}, soon, often)
	}
	holds(0)
	edit(t, d, func(d *appsv1.Deployment) { d.Labels[ManagedByLabel] = ManagedByUpright })
	holds(1)
	edit(t, d, func(d *appsv1.Deployment) { delete(d.Labels, ManagedByLabel) })
	holds(0)
}

func TestCacheIsOfTheGivenNamespacesOnlyOrOfAll(t *testing.T) {
	t.Parallel()
	watched, other := env.Namespace(t), env.Namespace(t)
	create(t, newBusybox(watched, "seen"))
	create(t, newBusybox(other, "unseen"))
	names := func(c cache.Cache) []string {
		var list examplev1alpha1.BusyboxList
		require.NoError(t, c.List(t.Context(), &list))
		var names []string
		for _, busybox := range list.Items {
			if busybox.Namespace == watched || busybox.Namespace == other {
				names = append(names, busybox.Name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"seen"}, names(cacheOf(t, []string{watched}, &examplev1alpha1.Busybox{})))
	assert.ElementsMatch(t, []string{"seen", "unseen"}, names(cacheOf(t, nil, &examplev1alpha1.Busybox{})))
}

func TestCacheRefusesToReadWhatIsNotWatched(t *testing.T) {
	t.Parallel()
	c := cacheOf(t, []string{env.Namespace(t)})
	var notCached *cache.ErrResourceNotCached
	require.ErrorAs(t, c.List(t.Context(), &appsv1.DeploymentList{}), &notCached)
}
