package sizetable

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/testenv"
)

// assertInterval asserts that a second passed between the end of each write and the begin of the
// next one.
func (w *tableWrites) assertInterval(t testing.TB) {
	t.Helper()
	all := w.all()
	require.NotEmpty(t, all)
	for i := range all[1:] {
		assert.GreaterOrEqual(t, all[i+1].begin.Sub(all[i].end), time.Second, "between writes %d and %d", i, i+1)
	}
}

func TestTableIsWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	m := startManager(t, namespace)
	scaler := createScaler(t, namespace, "s", "web", sizing("app", small))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: small}}})
	setSizing(t, scaler, sizing("app", large))
	waitForTable(t, namespace, deployments{"web": {"app": {Requests: large}}})
	testenv.Delete(t, env, scaler)
	waitUntilNoTable(t, namespace)
	require.Len(t, m.writes.all(), 3)
	m.writes.assertInterval(t)
}

func TestThousandChangesAreAFewWrites(t *testing.T) {
	t.Parallel()
	const count = 1000
	namespace := env.Namespace(t)
	created := make([]*autoscalingv1beta1.VerticalScaler, count)
	testenv.Fill(t, count, func(i int) error {
		created[i] = testenv.NewScaler(namespace, fmt.Sprintf("s-%d", i), fmt.Sprintf("web-%d", i))
		return env.Client.Create(t.Context(), created[i])
	})
	m := startManager(t, namespace)
	m.waitForReconcile(t)
	want := deployments{}
	for _, scaler := range created {
		want[scaler.Spec.DeploymentName] = podSize{"app": {Requests: large}}
	}

	begin := time.Now()
	testenv.Fill(t, count, func(i int) error { return writeSizing(created[i], sizing("app", large)) })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.True(c, equality.Semantic.DeepEqual(want, testenv.Refresh(c, env, sizeTable(namespace)).Deployments))
	}, time.Minute, 100*time.Millisecond)
	elapsed := time.Since(begin)

	m.assertNoWrite(t, func() { testenv.Edit(t, env, sizeTable(namespace), addLabel) })
	assert.LessOrEqual(t, float64(len(m.writes.all())), 1+elapsed.Seconds(), "one at once, then one a second")
	m.writes.assertInterval(t)
}
