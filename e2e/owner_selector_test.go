package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMemcachedsOfOneNamespaceSelectOnlyTheirOwnPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	one, two := newMemcached(namespace, "one", 2), newMemcached(namespace, "two", 3)

	createReady(t, one)
	createReady(t, two)

	selectsOnlyItsOwn(t, deploymentOf(t, namespace, "one"), 2)
	selectsOnlyItsOwn(t, deploymentOf(t, namespace, "two"), 3)
}

// Charts select pods by the labels app.kubernetes.io/name and app.kubernetes.io/instance,
// the latter being the release's name; their Deployment often has a longer one.
func TestMemcachedAndHelmReleaseOfOneNameDoNotSelectEachOthersPods(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	release := newDeployment(namespace, "sessions-memcached", 2)
	usual := map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": "sessions"}
	release.Labels = usual
	release.Spec.Selector = &metav1.LabelSelector{MatchLabels: usual}
	release.Spec.Template.Labels = map[string]string{
		"app.kubernetes.io/name":       "memcached",
		"app.kubernetes.io/instance":   "sessions",
		"app.kubernetes.io/managed-by": "Helm",
	}
	create(t, release)

	createReady(t, newMemcached(namespace, "sessions", 2))

	runs := func(c *assert.CollectT) { require.Len(c, ownedPods(c, release), 2) }
	eventually(t, runs)
	selectsOnlyItsOwn(t, deploymentOf(t, namespace, "sessions"), 2)
	selectsOnlyItsOwn(t, release, 2)
}

func selectsOnlyItsOwn(t *testing.T, deployment *appsv1.Deployment, count int) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	require.NoError(t, err)
	selected := names(podsIn(t, deployment.Namespace, client.MatchingLabelsSelector{Selector: selector}))
	assert.Len(t, selected, count, "pods that the selector of %s selects", deployment.Name)
	assert.Equal(t, names(ownedPods(t, deployment)), selected, "pods of %s", deployment.Name)
}
