package verticalscaler

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/controllers/recommendation"
	"example.com/upright/controllers/sizetable"
	"example.com/upright/internal/cache"
	"example.com/upright/mappers"
)

// name is the field owner of the scalers' status and of their targets' rollouts, and the
// reporter of events.
const name = "upright-verticalscaler"

// Options configure the controller.
type Options struct {
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
	// Uncached is a client without a cache, for the scalers' targets.
	Uncached client.Client
	// Tables writes the sizes of new pods.
	Tables *sizetable.Reconciler
	// MaxConcurrentRollouts is how many rollouts may be in progress at the same time.
	MaxConcurrentRollouts int
	// Controller configures workers, timeout and backoff.
	Controller controller.Options
}

// AddToManager adds the controller of VerticalScalers to the manager.
func AddToManager(
	ctx context.Context, mgr ctrl.Manager, mapper *mappers.Mappers, recommender *recommendation.Recommender, options Options,
) error {
	reconciler, err := newReconciler(ctx, mgr, recommender, options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&autoscalingv1beta1.VerticalScaler{}).
		WatchesMetadata(cache.NewDeploymentMetadata(), mapper.DeploymentToVerticalScalers()).
		Watches(&autoscalingv1beta1.VerticalScaler{}, mapper.VerticalScalerToSiblings(), builder.WithPredicates(claimChanged())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, mapper.HorizontalPodAutoscalerToVerticalScalers(),
			builder.WithPredicates(hpaSpecChanged())).
		Watches(&corev1.LimitRange{}, mapper.LimitRangeToVerticalScalers()).
		Watches(&corev1.Pod{}, mapper.PodToVerticalScalers(), builder.WithPredicates(deploymentPodChanged())).
		WatchesRawSource(source.Channel(recommender.Triggers(), &handler.EnqueueRequestForObject{})).
		WithOptions(options.Controller).
		Complete(reconciler)
	if err != nil {
		return fmt.Errorf("add the controller of VerticalScalers: %w", err)
	}
	return nil
}

// newReconciler returns the reconciler of VerticalScalers.
func newReconciler(
	ctx context.Context, mgr ctrl.Manager, recommender *recommendation.Recommender, options Options,
) (*Reconciler, error) {
	metrics, err := newMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	admission, err := newAdmission(ctx, mgr, recommender.TriggerAll)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(admission); err != nil {
		return nil, fmt.Errorf("add the watch of the admission policy: %w", err)
	}
	recorder := mgr.GetEventRecorder(name)
	return &Reconciler{
		Client: mgr.GetClient(), uncached: options.Uncached, fieldOwner: name, recorder: recorder, metrics: metrics,
		recommender: recommender, admission: admission,
		tables: options.Tables, creations: newCreations(),
		targets: &targets{server: options.Uncached, known: map[types.NamespacedName]*target{}},
		queue:   newRolloutQueue(mgr.GetCache(), options.MaxConcurrentRollouts),
		resizer: &resizer{
			Client: mgr.GetClient(), fieldOwner: name, recorder: recorder, metrics: metrics, attempts: newAttempts(),
		},
	}, nil
}
