package sizetable

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// fillTable creates five scalers and returns them. The first three fit into the table of their
// namespace, the fourth does not, and the fifth is small and fits.
func fillTable(t *testing.T, namespace string) []*autoscalingv1beta1.VerticalScaler {
	t.Helper()
	var created []*autoscalingv1beta1.VerticalScaler
	for _, name := range []string{"a", "b", "c", "d"} {
		created = append(created, createScaler(t, namespace, name, "web-"+name, padded(300<<10)))
	}
	return append(created, createScaler(t, namespace, "e", "web-e", sizing("app", small)))
}

// waitForTriggers waits until the controller has triggered the reconcile of scalers.
func (m *manager) waitForTriggers(t *testing.T, names ...string) {
	t.Helper()
	var triggered []string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		triggered = append(triggered, m.triggers.take()...)
		assert.Subset(c, triggered, names)
	}, testenv.Timeout, testenv.Poll)
	assert.ElementsMatch(t, names, triggered, "each once, and no others")
}

func TestFullTableTriggersTheOmittedScalersUntilTheyFit(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	all := fillTable(t, namespace)
	m := startManager(t, namespace)

	waitForEntries(t, namespace, "web-a", "web-b", "web-c", "web-e")
	m.waitForTriggers(t, "d")
	assert.True(t, isOmitted(m, namespace, "web-d"))
	assert.False(t, isOmitted(m, namespace, "web-e"))
	assert.False(t, isOmitted(m, "another", "web-d"))

	// A change of the others leaves the omitted one where it is.
	setSizing(t, all[4], sizing("app", large))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, large, testenv.Refresh(c, env, sizeTable(namespace)).Deployments["web-e"]["app"].Requests)
	}, testenv.Timeout, testenv.Poll)
	assert.Empty(t, m.triggers.take())

	testenv.Delete(t, env, all[0])
	waitForEntries(t, namespace, "web-b", "web-c", "web-d", "web-e")
	m.waitForTriggers(t, "d")
	assert.False(t, isOmitted(m, namespace, "web-d"))
}

func TestFailedTriggerIsRetried(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	fillTable(t, namespace)
	m := startManagerWith(t, namespace, &triggers{err: errors.New("no worker is free")})
	waitForEntries(t, namespace, "web-a", "web-b", "web-c", "web-e")
	m.waitForTriggers(t, "d")
	assert.True(t, isOmitted(m, namespace, "web-d"))
}

func TestDeletedScalerIsNoLongerOmitted(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	all := fillTable(t, namespace)
	m := startManager(t, namespace)
	m.waitForTriggers(t, "d")
	testenv.Delete(t, env, all[3])
	require.Eventually(t, func() bool { return !isOmitted(m, namespace, "web-d") }, testenv.Timeout, testenv.Poll)
	assert.Empty(t, m.triggers.take())
}

// isOmitted reports whether a size is known not to fit into the table.
func isOmitted(m *manager, namespace, deployment string) bool {
	isOmitted, isKnown := m.tables.IsOmitted(namespace, deployment)
	return isOmitted && isKnown
}
