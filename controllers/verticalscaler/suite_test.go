package verticalscaler

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"example.com/upright/controllers/recommendation"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/indexers"
	"example.com/upright/internal/testenv"
	"example.com/upright/mappers"
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) {
		env = e
		if err := e.InstallAdmission(); err != nil {
			panic(err)
		}
	}))
}

// startManager runs the controller of VerticalScalers for one namespace, without any usage.
func startManager(t *testing.T, namespace string, changes ...testenv.Change) *testenv.Manager {
	t.Helper()
	return startManagerIn(t, env, namespace, &testenv.Meter{}, changes...)
}

// startManagerIn runs the controller of VerticalScalers for one namespace of an environment. It
// reads usage from a meter.
func startManagerIn(
	t *testing.T, environment *testenv.Environment, namespace string, meter *testenv.Meter, changes ...testenv.Change,
) *testenv.Manager {
	t.Helper()
	setup := func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
		return addController(ctx, mgr, registry, namespace, meter)
	}
	return environment.StartManager(t, []string{namespace}, setup, changes...)
}

// addController adds the controller, and what it depends on, to a manager of one namespace.
func addController(
	ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry, namespace string, meter *testenv.Meter,
) error {
	recommender, options, err := addDependencies(ctx, mgr, registry, namespace, meter)
	if err != nil {
		return err
	}
	failures, err := mappers.NewFailures(registry)
	if err != nil {
		return err
	}
	return AddToManager(ctx, mgr, mappers.New(mgr.GetCache(), failures), recommender, options)
}

// addDependencies adds what the controller depends on to a manager of one namespace.
func addDependencies(
	ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry, namespace string, meter *testenv.Meter,
) (*recommendation.Recommender, Options, error) {
	if err := indexers.AddAll(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, Options{}, err
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, Options{}, err
	}
	recommender, err := recommendation.AddToManager(ctx, mgr, recommendation.Source{Source: meter}, recommendation.Options{
		Namespaces: []string{namespace}, Metrics: registry, Uncached: uncached,
		Usage: recommendation.UsageOptions{Interval: testenv.Poll, CheckpointInterval: time.Hour},
	})
	if err != nil {
		return nil, Options{}, err
	}
	tables, err := sizetable.AddToManager(mgr, controller.Options{}, recommender.Trigger)
	return recommender, Options{
		Metrics: registry, Uncached: uncached, Tables: tables, MaxConcurrentRollouts: 5,
		Controller: controller.Options{MaxConcurrentReconciles: 4},
	}, err
}
