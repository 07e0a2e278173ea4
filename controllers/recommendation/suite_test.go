package recommendation_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/controllers/verticalscaler"
	"example.com/upright/indexers"
	"example.com/upright/internal/testenv"
	"example.com/upright/internal/usage"
	"example.com/upright/mappers"
)

const (
	isTrue  = metav1.ConditionTrue
	isFalse = metav1.ConditionFalse
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) {
		env = e
		if err := env.InstallAdmission(); err != nil {
			panic(err)
		}
	}))
}

// newOptions returns options with short intervals between readings, and no checkpoint before
// the manager stops.
func newOptions() recommendation.UsageOptions {
	return recommendation.UsageOptions{Interval: testenv.Poll, CheckpointInterval: time.Hour}
}

// startManager runs a manager of one namespace that reads usage often, until the test ends.
func startManager(t testing.TB, namespace string, source usage.Source, changes ...testenv.Change) *testenv.Manager {
	t.Helper()
	return startManagerWith(t, []string{namespace}, newOptions(), recommendation.Source{Source: source}, changes...)
}

// startManagerWith runs a manager with options and a source of usage until the test ends. The
// VerticalScaler controller publishes the recommendations.
func startManagerWith(
	t testing.TB, namespaces []string, options recommendation.UsageOptions, source recommendation.Source, changes ...testenv.Change,
) *testenv.Manager {
	t.Helper()
	setup := func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
		if err := indexers.AddAll(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		failures, err := mappers.NewFailures(registry)
		if err != nil {
			return err
		}
		uncached, err := client.New(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return err
		}
		recommender, err := recommendation.AddToManager(ctx, mgr, source, recommendation.Options{
			Namespaces: namespaces, Metrics: registry, Usage: options, Uncached: uncached,
		})
		if err != nil {
			return err
		}
		tables, err := sizetable.AddToManager(mgr, controller.Options{}, recommender.Trigger)
		if err != nil {
			return err
		}
		return verticalscaler.AddToManager(ctx, mgr, mappers.New(mgr.GetCache(), failures), recommender, verticalscaler.Options{
			Metrics: registry, Uncached: uncached, Tables: tables, Controller: controller.Options{MaxConcurrentReconciles: 4},
		})
	}
	return env.StartManager(t, namespaces, setup, changes...)
}
