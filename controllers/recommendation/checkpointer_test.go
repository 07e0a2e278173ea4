package recommendation

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/apis"
	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
)

// failingClient is a client whose first creations fail.
type failingClient struct {
	client.Client
	failures int
	applied  int
}

func (*failingClient) Scheme() *runtime.Scheme { return apis.NewScheme() }

func (c *failingClient) Create(context.Context, client.Object, ...client.CreateOption) error {
	c.applied++
	if c.applied <= c.failures {
		return errors.New("no connection")
	}
	return nil
}

func TestFailedCheckpointIsRetriedBeforeNextInterval(t *testing.T) {
	t.Parallel()
	metrics, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	c := &failingClient{failures: 3}
	histories := history.NewStore()
	checkpointer := &Checkpointer{client: c, histories: histories, metrics: metrics}
	scaler := &autoscalingv1beta1.VerticalScaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	start := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	histories.History(scaler, start).Backfill(nil, history.Past{})
	// The history was saved at start, so it is due after an interval, and only then.
	checkpointer.save(t.Context(), start.Add(-time.Nanosecond))
	assert.Zero(t, c.applied)
	for check := range 4 {
		checkpointer.save(t.Context(), start)
		assert.Equal(t, check+1, c.applied, "each check retries the write")
	}
	checkpointer.save(t.Context(), start)
	assert.Equal(t, 4, c.applied, "the history is saved")
}
