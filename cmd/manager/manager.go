package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/upright/apis"
	"example.com/upright/controllers"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/internal/cache"
	"example.com/upright/internal/metricsauth"
)

// newManager returns a manager with every controller, ready to start.
func newManager(ctx context.Context, s *settings) (ctrl.Manager, error) {
	klog.SetLogger(ctrl.Log.WithName("client-go"))
	kubeConfig, err := loadConfig(s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	mapper, err := connect(ctx, kubeConfig, connectTimeout)
	if err != nil {
		return nil, withHost(kubeConfig, err)
	}
	mgr, err := newElectedManager(kubeConfig, s, mapper)
	if err != nil {
		return nil, withHost(kubeConfig, fmt.Errorf("create the manager: %w", err))
	}
	reconciling, err := controllers.SetupWithManager(ctx, mgr, controllers.Options{
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
		return nil, err
	}
	return mgr, errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", cachesFilled(mgr)),
		mgr.AddReadyzCheck("leader", leaderReconciles(mgr, s.leaderElection, reconciling)),
	)
}

// newElectedManager returns a manager without controllers. With leader election, it writes only while
// it holds the Lease.
func newElectedManager(kubeConfig *rest.Config, s *settings, mapper meta.RESTMapper) (ctrl.Manager, error) {
	options := managerOptions(s)
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
	if !s.leaderElection {
		return ctrl.NewManager(kubeConfig, options)
	}
	lock := &lease{}
	options.LeaderElectionResourceLockInterface = lock
	fenced := rest.CopyConfig(kubeConfig)
	fenced.Wrap(lock.fence)
	mgr, err := ctrl.NewManager(fenced, options)
	if err != nil {
		return nil, err
	}
	return mgr, lock.use(kubeConfig, mgr, s.leaderElectionNamespace)
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
		Scheme:                 apis.NewScheme(),
		Cache:                  cache.Options(s.namespaces),
		Client:                 cache.ClientOptions(),
		Controller:             ctrlconfig.Controller{EnableWarmup: new(true)},
		Metrics:                metricsOptions,
		HealthProbeBindAddress: s.probeAddress,
		LeaderElection:         s.leaderElection,
		LeaderElectionID:       leaderElectionID,
		LeaseDuration:          new(leaseDuration),
		RenewDeadline:          new(renewDeadline),
		// The process exits with the manager, so another manager can take over immediately.
		LeaderElectionReleaseOnCancel: true,
	}
}
