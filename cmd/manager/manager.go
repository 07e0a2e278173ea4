package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
	examplev1alpha1 "example.com/upright/apis/example/v1alpha1"
	"example.com/upright/controllers"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/metricsauth"
)

// leaderElectionID is the name of the leader election Lease.
const leaderElectionID = "upright-manager"

// Another manager may acquire a Lease that has not been renewed for leaseDuration. A leader stops
// when it cannot renew its Lease for renewDeadline. These are controller-runtime's defaults.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
)

// firstResponseTimeout limits the time until the API server's first response.
const firstResponseTimeout = 10 * time.Second

// newManager returns a manager with every controller, ready to start. The channel is closed when
// a leader has stopped and has saved its usage history.
func newManager(ctx context.Context, s *settings) (mgr ctrl.Manager, saved <-chan struct{}, err error) {
	klog.SetLogger(ctrl.Log.WithName("client-go"))
	kubeConfig, err := loadConfig(s.kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	if err := checkReachable(ctx, kubeConfig); err != nil {
		return nil, nil, withHost(kubeConfig, err)
	}
	mgr, err = ctrl.NewManager(kubeConfig, managerOptions(s))
	if err != nil {
		return nil, nil, withHost(kubeConfig, fmt.Errorf("create the manager: %w", err))
	}
	if err := checkKinds(mgr.GetRESTMapper()); err != nil {
		return nil, nil, withHost(kubeConfig, err)
	}
	saved, err = controllers.SetupWithManager(ctx, mgr, controllers.Options{
		Concurrency: s.concurrency, MaxConcurrentRollouts: s.maxConcurrentRollouts,
		Namespaces: s.namespaces,
		Metrics:    metrics.Registry,
		Usage: recommendation.UsageOptions{
			Interval:           s.metricsInterval,
			CheckpointInterval: s.checkpointInterval,
			PrometheusURL:      s.prometheusURL,
			Window:             s.prometheusWindow,
			History:            s.prometheusHistory,
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return mgr, saved, errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	)
}

// loadConfig reads the kubeconfig at path. If path is empty, it uses the first of these that
// exists: $KUBECONFIG, ~/.kube/config, and the pod's ServiceAccount. The client does not limit
// its requests, because the API server's priority and fairness does that better.
func loadConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	kubeConfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no kubeconfig found: set --kubeconfig or $KUBECONFIG, or run in a pod")
	}
	if err != nil {
		return nil, err
	}
	kubeConfig.QPS = -1
	return kubeConfig, nil
}

func managerOptions(s *settings) ctrl.Options {
	metricsOptions := metricsserver.Options{
		BindAddress:   s.metricsAddress,
		SecureServing: s.metricsSecure,
		CertDir:       s.metricsCertDir,
	}
	if s.metricsSecure {
		metricsOptions.FilterProvider = metricsauth.NewFilter
	}
	return ctrl.Options{
		Scheme:                  apis.NewScheme(),
		Cache:                   cache.Options(s.namespaces),
		Client:                  cache.ClientOptions(),
		Controller:              ctrlconfig.Controller{EnableWarmup: new(true)},
		Metrics:                 metricsOptions,
		HealthProbeBindAddress:  s.probeAddress,
		LeaderElection:          s.leaderElection,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: s.leaderElectionNamespace,
		LeaseDuration:           new(leaseDuration),
		RenewDeadline:           new(renewDeadline),
		// The process exits with the manager, so another manager can take over immediately.
		LeaderElectionReleaseOnCancel: true,
	}
}

// checkReachable returns an error if the API server does not respond in time. The manager's own
// requests have no such timeout.
func checkReachable(ctx context.Context, kubeConfig *rest.Config) error {
	withTimeout := rest.CopyConfig(kubeConfig)
	withTimeout.Timeout = firstResponseTimeout
	api, err := discovery.NewDiscoveryClientForConfig(withTimeout)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	if _, err := api.ServerVersionWithContext(ctx); err != nil {
		return fmt.Errorf("get the API server's version: %w", err)
	}
	return nil
}

// checkKinds returns an error that lists the kinds that the API server does not serve.
func checkKinds(mapper meta.RESTMapper) error {
	var missing []string
	for _, kind := range []schema.GroupVersionKind{
		examplev1alpha1.GroupVersion.WithKind("Busybox"),
		examplev1alpha1.GroupVersion.WithKind("Foo"),
		cachev1alpha1.GroupVersion.WithKind("Memcached"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScaler"),
		autoscalingv1beta1.GroupVersion.WithKind("VerticalScalerCheckpoint"),
	} {
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			missing = append(missing, kind.GroupKind().String())
		} else if err != nil {
			return fmt.Errorf("look up the kinds that the API server serves: %w", err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("the API server does not serve %s: install the CRDs (kubectl apply -k deploy/crds)",
		strings.Join(missing, ", "))
}

// withHost adds the API server's address to an error that means that it is unreachable.
func withHost(kubeConfig *rest.Config, err error) error {
	unreachable, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case unreachable.Timeout():
		return fmt.Errorf("cannot reach the API server at %s: no response (%w)", kubeConfig.Host, unreachable.Err)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w", kubeConfig.Host, unreachable.Err)
	}
}
