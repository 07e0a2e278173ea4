package owned

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/upright/indexers"
	"example.com/upright/internal/testenv"
	"example.com/upright/mappers"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) { env = e }))
}

// startManager runs the controllers of this package for one namespace until the test ends.
func startManager(t *testing.T, namespace string, changes ...testenv.Change) *testenv.Manager {
	t.Helper()
	return env.StartManager(t, []string{namespace}, setup, changes...)
}

func setup(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
	if err := indexers.AddAll(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	failures, err := mappers.NewFailures(registry)
	if err != nil {
		return err
	}
	return AddToManager(mgr, mappers.New(mgr.GetCache(), failures), newOptions)
}

// newOptions returns options with a short backoff.
func newOptions() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 4,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			5*time.Millisecond, time.Second),
	}
}
