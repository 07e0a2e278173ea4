package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	"example.com/upright/mappers"
)

// newUnstartedManager returns a manager without controllers.
func newUnstartedManager(t *testing.T, change func(*ctrl.Options)) ctrl.Manager {
	t.Helper()
	options := ctrl.Options{
		Scheme:     apis.NewScheme(),
		Cache:      CacheOptions([]string{"default"}),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	}
	change(&options)
	mgr, err := ctrl.NewManager(env.Config, options)
	require.NoError(t, err)
	return mgr
}

// fullIndexer is a cache that takes no more than so many indexes.
type fullIndexer struct {
	cache.Cache
	room int
}

var errFull = errors.New("no room for an index")

func (f *fullIndexer) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	f.room--
	if f.room < 0 {
		return errFull
	}
	return f.Cache.IndexField(ctx, obj, field, extract)
}

func TestSetupNamesTheIndexThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	for room, want := range []string{
		"index Busyboxes by metadata.name",
		"index Memcacheds by metadata.name",
		"index Foos by spec.deploymentName",
		"index VerticalScalers by spec.deploymentName",
		"index Deployments by metadata.ownerReferences.controller",
		"index pods by metadata.ownerReferences.deployment",
		"index HorizontalPodAutoscalers by ",
	} {
		mgr := newUnstartedManager(t, func(options *ctrl.Options) {
			options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
				inner, err := cache.New(config, options)
				return &fullIndexer{Cache: inner, room: room}, err
			}
		})
		_, err := SetupWithManager(t.Context(), mgr, newOptions())
		require.ErrorIs(t, err, errFull)
		assert.ErrorContains(t, err, want)
	}
}

func TestSetupSaysThatTheMetricIsThereAlready(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := mappers.NewFailures(registry)
	require.NoError(t, err)
	options := newOptions()
	options.Metrics = registry
	_, err = SetupWithManager(t.Context(), newUnstartedManager(t, func(*ctrl.Options) {}), options)
	assert.ErrorContains(t, err, "register metrics: ")
}

func TestSetupNamesTheControllerThatCannotBeSetUp(t *testing.T) {
	t.Parallel()
	var err error
	for range 2 { // The second time, at the latest, the controllers' names are taken.
		mgr := newUnstartedManager(t, func(options *ctrl.Options) { options.Controller.SkipNameValidation = new(false) })
		_, err = SetupWithManager(t.Context(), mgr, newOptions())
	}
	require.ErrorContains(t, err, "set up the ")
	assert.ErrorContains(t, err, " controller: ")
}

func TestEveryMapperShowsInTheMetricFromTheStart(t *testing.T) {
	t.Parallel()
	m := startManager(t, env.Namespace(t))
	for _, mapper := range []string{
		"deployment-to-busyboxes",
		"deployment-to-memcacheds",
		"deployment-to-foos",
		"deployment-to-verticalscalers",
		"verticalscaler-to-siblings",
		"pod-to-verticalscalers",
		"horizontalpodautoscaler-to-verticalscalers",
		"limitrange-to-verticalscalers",
	} {
		assert.Zero(t, mapFailures(t, m, mapper), mapper)
	}
}
