package recommendation

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/indexers"
	"example.com/upright/internal/history"
	"example.com/upright/internal/sizing"
)

// Recommender computes recommendations from the usage histories of the scalers' targets. The
// collector, the backfiller and the checkpointer fill the histories.
type Recommender struct {
	cache        client.Reader
	histories    *history.Store
	checkpointer *Checkpointer
	metrics      *metrics
	readsPast    bool // Whether past usage is read.

	firstReading chan struct{}          // Closed after the first reading of usage, or if it is slow.
	unavailable  atomic.Pointer[string] // Why usage cannot be read; nil while it can.
	problems     problems
	nodes        atomic.Pointer[sizing.Nodes] // Nil until the nodes have been measured.
	triggers     chan event.GenericEvent
}

func newRecommender(cache client.Reader, checkpointer *Checkpointer, metrics *metrics) *Recommender {
	return &Recommender{
		cache: cache, histories: checkpointer.histories, checkpointer: checkpointer, metrics: metrics,
		firstReading: make(chan struct{}),
		triggers:     make(chan event.GenericEvent),
	}
}

// Result is the recommendation for a scaler's target.
type Result struct {
	// Containers are the names of the containers that should have a recommendation.
	Containers []string
	// HasPod is true if a pod has these containers now.
	HasPod bool
	// Recommendations has an entry for each container with any usage.
	Recommendations []autoscalingv1beta1.ContainerRecommendation
}

// WaitForHistory waits until the checkpoints have been restored and usage has been read once, or
// for as long as a reading may delay reconciles. A new leader must not recommend anything before.
func (r *Recommender) WaitForHistory(ctx context.Context) error {
	if err := r.checkpointer.restore(ctx); err != nil {
		return err
	}
	select {
	case <-r.firstReading:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the first reading of usage: %w", ctx.Err())
	}
}

// History returns the usage history of a scaler's target.
func (r *Recommender) History(scaler *autoscalingv1beta1.VerticalScaler) *history.WorkloadHistory {
	return r.histories.History(scaler, time.Now())
}

// LearnOOMKills adds the OOM kills of the target's pods to its history and returns how many
// were new. The kills of a suspended scaler never count. The target is nil if it is not known.
func (*Recommender) LearnOOMKills(
	scaler *autoscalingv1beta1.VerticalScaler, workload *history.WorkloadHistory,
	target *appsv1.Deployment, targetPods []corev1.Pod, now time.Time,
) (added int) {
	for _, kill := range workload.ObservePods(targetPods, templateOf(target), now) {
		if scaler.Spec.Suspend {
			workload.SkipOOMKill(kill, now)
		} else if workload.AddOOMKill(kill, now) {
			added++
		}
	}
	return added
}

// CountOOMKills adds new OOM kills to the metrics.
func (r *Recommender) CountOOMKills(added int) { r.metrics.oomKills.Add(float64(added)) }

// Recommend returns the recommendation for a scaler's target. A container without any usage
// keeps its published recommendation. The target is nil if it is not known.
func (*Recommender) Recommend(
	scaler *autoscalingv1beta1.VerticalScaler, workload *history.WorkloadHistory,
	target *appsv1.Deployment, targetPods []corev1.Pod, constraints sizing.Constraints,
) Result {
	var result Result
	result.Containers, result.HasPod = targetContainers(scaler, target, targetPods)
	for _, container := range result.Containers {
		policy := sizing.Policy(&scaler.Spec, container, len(result.Containers), constraints)
		recommendation := sizing.ContainerRecommendation(container, workload.Recommend(container, policy))
		if recommendation.Target == nil {
			recommendation = published(scaler, container)
		}
		if recommendation.Target != nil {
			result.Recommendations = append(result.Recommendations, recommendation)
		}
	}
	return result
}

// published returns the recommendation in a scaler's status, or an empty one. The status of
// another generation does not count: its spec may have named another Deployment.
func published(scaler *autoscalingv1beta1.VerticalScaler, container string) autoscalingv1beta1.ContainerRecommendation {
	if scaler.Status.ObservedGeneration == scaler.Generation {
		if found := ForContainer(scaler.Status.Recommendations, container); found != nil {
			return *found
		}
	}
	return autoscalingv1beta1.ContainerRecommendation{}
}

// ForContainer returns the recommendation for a container, or nil.
func ForContainer(
	recommendations []autoscalingv1beta1.ContainerRecommendation, container string,
) *autoscalingv1beta1.ContainerRecommendation {
	for i := range recommendations {
		if recommendations[i].ContainerName == container {
			return &recommendations[i]
		}
	}
	return nil
}

// Constraints returns what limits the sizes of a target's pods.
func (r *Recommender) Constraints(ctx context.Context, namespace string, targetPods []corev1.Pod) (sizing.Constraints, error) {
	var limitRanges corev1.LimitRangeList
	if err := r.cache.List(ctx, &limitRanges, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return sizing.Constraints{}, fmt.Errorf("list the LimitRanges: %w", err)
	}
	nodes := r.nodes.Load()
	if nodes == nil {
		var err error
		if nodes, err = r.measureNodes(ctx); err != nil {
			return sizing.Constraints{}, err
		}
	}
	return sizing.Constraints{LimitRanges: limitRanges.Items, LargestNode: nodes.Largest(targetPods), Nodes: nodes}, nil
}

// measureNodes reads the nodes, and what DaemonSets' pods take on them. The collector calls it with
// each reading of usage. A reconcile does not, because a cluster can have thousands of nodes.
func (r *Recommender) measureNodes(ctx context.Context) (*sizing.Nodes, error) {
	var nodes corev1.NodeList
	if err := r.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var daemons corev1.PodList
	if err := r.cache.List(ctx, &daemons,
		client.MatchingFields{indexers.PodControllerKind: indexers.KindDaemonSet}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list the pods of DaemonSets: %w", err)
	}
	measured := sizing.NewNodes(nodes.Items, daemons.Items)
	r.nodes.Store(measured)
	return measured, nil
}

// FirstReading returns a channel that is closed after the leader's first reading of usage. Reconciles
// of scalers wait for it.
func (r *Recommender) FirstReading() <-chan struct{} { return r.firstReading }

// Triggers returns the channel of the scalers to reconcile.
func (r *Recommender) Triggers() <-chan event.GenericEvent { return r.triggers }

// TriggerAll triggers a reconcile of every scaler.
func (r *Recommender) TriggerAll(ctx context.Context) error {
	scalers, err := r.scalers(ctx)
	if err != nil {
		return err
	}
	for i := range scalers {
		if err := r.Trigger(ctx, &scalers[i]); err != nil {
			return err
		}
	}
	return nil
}

// Trigger triggers a reconcile of a scaler.
func (r *Recommender) Trigger(ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler) error {
	object := &autoscalingv1beta1.VerticalScaler{ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name}}
	select {
	case r.triggers <- event.GenericEvent{Object: object}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scalers returns all scalers, read-only.
func (r *Recommender) scalers(ctx context.Context) ([]autoscalingv1beta1.VerticalScaler, error) {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := r.cache.List(ctx, &scalers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the VerticalScalers: %w", err)
	}
	return scalers.Items, nil
}
