package controllers

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	"example.com/upright/internal/testenv"
)

// A change is seen within soon; what must not happen is watched for a while.
const (
	soon   = 10 * time.Second
	aWhile = 500 * time.Millisecond
	often  = 20 * time.Millisecond
)

var env *testenv.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Environment) {
		env = e
		if err := installAdmission(e.Client); err != nil {
			panic(err)
		}
	}))
}

// manager is a running manager of one namespace.
type manager struct {
	metrics *prometheus.Registry
	stop    func()
}

// newOptions returns options with which usage is read often.
func newOptions() Options {
	return Options{
		Concurrency: 4,
		Metrics:     prometheus.NewRegistry(),
		Usage:       UsageOptions{Interval: often, CheckpointInterval: time.Hour},
	}
}

// startManager runs every controller for one namespace until the test ends. The options may
// be changed before it starts. No container uses anything.
func startManager(t *testing.T, namespace string, change ...func(*ctrl.Options, *rest.Config)) *manager {
	t.Helper()
	return startManagerWith(t, namespace, newOptions(), usageSource{Source: &meter{}}, change...)
}

// startManagerWith is startManager with options and a source of usage. The options may name
// other namespaces.
func startManagerWith(
	t *testing.T, namespace string, with Options, source usageSource, change ...func(*ctrl.Options, *rest.Config),
) *manager {
	t.Helper()
	if with.Namespaces == nil {
		with.Namespaces = []string{namespace}
	}
	restConfig := rest.CopyConfig(env.Config)
	options := ctrl.Options{
		Scheme:     apis.NewScheme(),
		Logger:     newLogger(t),
		Cache:      CacheOptions(with.Namespaces),
		Client:     ClientOptions(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), RecoverPanic: new(false)},
	}
	for _, f := range change {
		f(&options, restConfig)
	}
	options.BaseContext = func() context.Context { return log.IntoContext(context.Background(), options.Logger) }
	mgr, err := ctrl.NewManager(restConfig, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	registry, isRegistry := with.Metrics.(*prometheus.Registry)
	require.True(t, isRegistry)
	_, err = setup(ctx, mgr, with, source)
	require.NoError(t, err)
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	running := true
	stop := func() {
		if running {
			running = false
			cancel()
			assert.NoError(t, <-stopped)
		}
	}
	t.Cleanup(stop)
	return &manager{metrics: registry, stop: stop}
}

// newLogger returns a logger into the test's log that falls silent when the test ends: what a
// manager has started to record events outlives it.
func newLogger(t *testing.T) logr.Logger {
	t.Helper()
	var (
		mu    sync.Mutex
		ended bool
	)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, line string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, line)
		}
	}, funcr.Options{})
}

// create creates an object and returns it as it then is.
func create[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	require.NoError(t, env.Client.Create(context.Background(), obj))
	return obj
}

// refresh reads an object anew.
func refresh[T client.Object](t assert.TestingT, obj T) T {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	assert.NoError(t, env.Client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// edit patches what with changes in an object.
func edit[T client.Object](t *testing.T, obj T, with func(T)) {
	t.Helper()
	refresh(t, obj)
	before := obj.DeepCopyObject().(client.Object)
	with(obj)
	require.NoError(t, env.Client.Patch(context.Background(), obj, client.MergeFrom(before)))
}

// deployment waits until the Deployment exists and returns it.
func deployment(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.EventuallyWithT(t, func(c *assert.CollectT) { refresh(c, d) }, soon, often)
	return d
}

// gone waits until the object does not exist any more.
func gone(t *testing.T, obj client.Object) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(obj), obj)
		assert.True(c, apierrors.IsNotFound(err), "still there: %v", err)
	}, soon, often)
}

// rollOut writes the status that the Deployment controller writes when all pods are available.
func rollOut(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	refresh(t, d)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           *d.Spec.Replicas,
		UpdatedReplicas:    *d.Spec.Replicas,
		ReadyReplicas:      *d.Spec.Replicas,
		AvailableReplicas:  *d.Spec.Replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	require.NoError(t, env.Client.Status().Update(context.Background(), d))
}

// assertCondition asserts a condition's status and reason.
func assertCondition(
	t assert.TestingT, conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus, reason string,
) {
	condition := meta.FindStatusCondition(conditions, conditionType)
	if assert.NotNil(t, condition, "condition %s", conditionType) {
		assert.Equal(t, status, condition.Status, "status of %s: %s", conditionType, condition.Message)
		assert.Equal(t, reason, condition.Reason, "reason of %s", conditionType)
	}
}
