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
)

// leaderElectionID is the name of the Lease.
const leaderElectionID = "upright-manager"

// Another manager may lead when the Lease has not been renewed for leaseDuration; the leader
// gives up when it has failed to for renewDeadline. (controller-runtime's defaults.)
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
)

// reachTimeout is how long the API server may take for its first answer.
const reachTimeout = 10 * time.Second

// newManager returns a manager with every controller, ready to start, and a channel that is
// closed when it has stopped leading and saved what it learned.
func newManager(ctx context.Context, s *settings) (mgr ctrl.Manager, saved <-chan struct{}, err error) {
	klog.SetLogger(ctrl.Log.WithName("client-go"))
	kubeConfig, err := loadConfig(s.kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	if err := checkReachable(ctx, kubeConfig); err != nil {
		return nil, nil, explain(kubeConfig, err)
	}
	mgr, err = ctrl.NewManager(kubeConfig, managerOptions(s))
	if err != nil {
		return nil, nil, explain(kubeConfig, fmt.Errorf("create the manager: %w", err))
	}
	if err := checkKinds(mgr.GetRESTMapper()); err != nil {
		return nil, nil, explain(kubeConfig, err)
	}
	saved, err = controllers.SetupWithManager(ctx, mgr, controllers.Options{
		Concurrency: s.concurrency,
		Namespaces:  s.namespaces,
		Metrics:     metrics.Registry,
		Usage: controllers.UsageOptions{
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

// loadConfig reads the kubeconfig at path or, where there is none, the ServiceAccount's, that
// of $KUBECONFIG or that of the home folder. Requests are not limited by the client: the API
// server's own priority and fairness does that better.
func loadConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	kubeConfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("there is none: use --kubeconfig or $KUBECONFIG, or run in a pod")
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
		metricsOptions.FilterProvider = newMetricsAccess
	}
	return ctrl.Options{
		Scheme:                  apis.NewScheme(),
		Cache:                   controllers.CacheOptions(s.namespaces),
		Client:                  controllers.ClientOptions(),
		Controller:              ctrlconfig.Controller{EnableWarmup: new(true)},
		Metrics:                 metricsOptions,
		HealthProbeBindAddress:  s.probeAddress,
		LeaderElection:          s.leaderElection,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: s.leaderElectionNamespace,
		LeaseDuration:           new(leaseDuration),
		RenewDeadline:           new(renewDeadline),
		// The process ends with the manager, so the next one need not wait for the Lease to run out.
		LeaderElectionReleaseOnCancel: true,
	}
}

// checkReachable returns an error where the API server does not answer in time. The manager's
// own requests wait for an answer as long as it takes.
func checkReachable(ctx context.Context, kubeConfig *rest.Config) error {
	impatient := rest.CopyConfig(kubeConfig)
	impatient.Timeout = reachTimeout
	api, err := discovery.NewDiscoveryClientForConfig(impatient)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	if _, err := api.ServerVersionWithContext(ctx); err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	return nil
}

// checkKinds returns an error that names the kinds which the API server does not serve.
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

// explain says which API server could not be reached, where that is what went wrong.
func explain(kubeConfig *rest.Config, err error) error {
	unreachable, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case unreachable.Timeout():
		return fmt.Errorf("cannot reach the API server at %s: it does not answer (%w)", kubeConfig.Host, unreachable.Err)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w", kubeConfig.Host, unreachable.Err)
	}
}
