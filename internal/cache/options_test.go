package cache_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/apis"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
)

// startCache runs a cache with the manager's options and informers for the given kinds until the
// test ends.
func startCache(t *testing.T, namespaces []string, kinds ...client.Object) ctrlcache.Cache {
	t.Helper()
	options := cache.Options(namespaces)
	options.Scheme = apis.NewScheme()
	c, err := ctrlcache.New(env.Config, options)
	require.NoError(t, err)
	for _, kind := range kinds {
		_, err := c.GetInformer(t.Context(), kind, ctrlcache.BlockUntilSynced(false))
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

func newBusybox(namespace, name string) *examplev1alpha1.Busybox {
	return &examplev1alpha1.Busybox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestCacheKeepsOwnedDeploymentsAndMetadataOfAll(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	other := testenv.Create(t, env, testenv.NewDeployment(namespace, "other"))
	owned := testenv.NewDeployment(namespace, "owned")
	owned.Labels[cache.ManagedByLabel] = cache.ManagedByUpright
	testenv.Create(t, env, owned)
	c := startCache(t, []string{namespace}, &appsv1.Deployment{}, cache.NewDeploymentMetadata())

	var whole appsv1.DeploymentList
	require.NoError(t, c.List(t.Context(), &whole))
	require.Len(t, whole.Items, 1)
	assert.Equal(t, owned.Name, whole.Items[0].Name)
	assert.Equal(t, owned.Spec, whole.Items[0].Spec)
	assert.Empty(t, whole.Items[0].ManagedFields)

	metadata := func(d *appsv1.Deployment) *metav1.PartialObjectMetadata {
		found := cache.NewDeploymentMetadata()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(d), found))
		return found
	}
	assert.Equal(t, other.UID, metadata(other).UID)
	assert.Equal(t, owned.UID, metadata(owned).UID)
	assert.Empty(t, metadata(other).Labels)
	assert.Empty(t, metadata(other).ManagedFields)
}

func TestCacheKeepsDeploymentOnlyWhileItHasOurLabel(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	d := testenv.Create(t, env, testenv.NewDeployment(namespace, "web"))
	c := startCache(t, []string{namespace}, &appsv1.Deployment{})
	waitForCount := func(count int) {
		t.Helper()
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			var whole appsv1.DeploymentList
			assert.NoError(collect, c.List(context.Background(), &whole))
			assert.Len(collect, whole.Items, count)
		}, testenv.Timeout, testenv.Poll)
	}
	waitForCount(0)
	testenv.Edit(t, env, d, func(d *appsv1.Deployment) { d.Labels[cache.ManagedByLabel] = cache.ManagedByUpright })
	waitForCount(1)
	testenv.Edit(t, env, d, func(d *appsv1.Deployment) { delete(d.Labels, cache.ManagedByLabel) })
	waitForCount(0)
}

func TestCacheCoversTheGivenNamespacesOrAll(t *testing.T) {
	t.Parallel()
	watched, other := env.Namespace(t), env.Namespace(t)
	testenv.Create(t, env, newBusybox(watched, "in-watched"))
	testenv.Create(t, env, newBusybox(other, "in-other"))
	names := func(c ctrlcache.Cache) []string {
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
	assert.Equal(t, []string{"in-watched"}, names(startCache(t, []string{watched}, &examplev1alpha1.Busybox{})))
	assert.ElementsMatch(t, []string{"in-watched", "in-other"}, names(startCache(t, nil, &examplev1alpha1.Busybox{})))
}

func TestCacheRejectsReadsOfKindsThatAreNotWatched(t *testing.T) {
	t.Parallel()
	c := startCache(t, []string{env.Namespace(t)})
	var notCached *ctrlcache.ErrResourceNotCached
	require.ErrorAs(t, c.List(t.Context(), &appsv1.DeploymentList{}), &notCached)
}
