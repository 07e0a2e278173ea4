package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/testenv"
	"example.com/upright/mappers"
)

func newOptions(namespace string, registry *prometheus.Registry) Options {
	return Options{
		Concurrency: 1, MaxConcurrentRollouts: 1, Namespaces: []string{namespace}, Metrics: registry,
		Usage: recommendation.UsageOptions{Interval: time.Minute, CheckpointInterval: time.Hour},
	}
}

// newManager returns a manager without controllers.
func newManager(t *testing.T, changes ...testenv.Change) ctrl.Manager {
	t.Helper()
	options := ctrl.Options{
		Scheme:     apis.NewScheme(),
		Cache:      cache.Options([]string{"default"}),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	}
	restConfig := rest.CopyConfig(env.Config)
	for _, change := range changes {
		change(&options, restConfig)
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	require.NoError(t, err)
	return mgr
}

func TestSetupRunsTheControllersOfAllKinds(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.StartManager(t, []string{namespace}, func(ctx context.Context, mgr ctrl.Manager, registry *prometheus.Registry) error {
		_, err := SetupWithManager(ctx, mgr, newOptions(namespace, registry))
		return err
	})
	scaler := testenv.Create(t, env, testenv.NewScaler(namespace, "scaler", "busybox"))
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	testenv.Create(t, env, &examplev1alpha1.Busybox{ObjectMeta: named("busybox")})
	testenv.Create(t, env, &cachev1alpha1.Memcached{ObjectMeta: named("memcached")})
	testenv.Create(t, env, &examplev1alpha1.Foo{ObjectMeta: named("foo"), Spec: examplev1alpha1.FooSpec{DeploymentName: "of-foo"}})
	for _, name := range []string{"busybox", "memcached", "of-foo"} {
		testenv.WaitForDeployment(t, env, namespace, name)
	}
	// A scaler finds a Deployment that Upright owns like any other.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		testenv.AssertCondition(c, testenv.Refresh(c, env, scaler).Status.Conditions, "TargetFound", metav1.ConditionTrue, "DeploymentFound")
	}, testenv.Timeout, testenv.Poll)
}

// fullIndexer is a cache that accepts a limited number of indexes.
type fullIndexer struct {
	ctrlcache.Cache
	room int
}

var errFull = errors.New("no room for another index")

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
		"index Foos by spec.deploymentName",
		"index VerticalScalers by spec.deploymentName",
		"index Deployments by metadata.ownerReferences.controller",
		"index pods by metadata.ownerReferences.deployment",
		"index pods by metadata.ownerReferences.controllerKind",
		"index HorizontalPodAutoscalers by spec.scaleTargetRef",
		"index metadata of Deployments by metadata.ownerReferences.scaleTarget",
	} {
		mgr := newManager(t, testenv.WrapCache(func(inner ctrlcache.Cache) ctrlcache.Cache {
			return &fullIndexer{Cache: inner, room: room}
		}))
		_, err := SetupWithManager(t.Context(), mgr, newOptions("default", prometheus.NewRegistry()))
		require.ErrorIs(t, err, errFull)
		assert.ErrorContains(t, err, want)
	}
}

func TestSetupFailsIfAMetricIsRegisteredAlready(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := mappers.NewFailures(registry)
	require.NoError(t, err)
	_, err = SetupWithManager(t.Context(), newManager(t), newOptions("default", registry))
	assert.ErrorContains(t, err, "register metrics: ")
}

func TestSetupNamesTheControllerThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	validateNames := func(options *ctrl.Options, _ *rest.Config) { options.Controller.SkipNameValidation = new(false) }
	var err error
	for range 2 { // The names of controllers are unique in a process, so the second call fails at the latest.
		_, err = SetupWithManager(t.Context(), newManager(t, validateNames), newOptions("default", prometheus.NewRegistry()))
	}
	assert.ErrorContains(t, err, "add the controller of *v1alpha1.Busybox: ")
}

func TestMetricHasEveryMapperFromTheStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := SetupWithManager(t.Context(), newManager(t), newOptions("default", registry))
	require.NoError(t, err)
	m := &testenv.Manager{Metrics: registry}
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
		assert.Zero(t, m.Value(t, "upright_map_failures_total", mapper), mapper)
	}
}
