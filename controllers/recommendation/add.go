// Package recommendation turns usage into recommendations: it reads usage, keeps a history for
// each scaler's target, saves and restores the histories, and computes recommendations.
package recommendation

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/upright/internal/history"
)

// fieldOwner is the field owner of the checkpoints.
const fieldOwner client.FieldOwner = "upright-verticalscaler"

// Options configure the package.
type Options struct {
	// Namespaces are those that are watched; empty means all.
	Namespaces []string
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
	// Usage configures readings and checkpoints.
	Usage UsageOptions
	// Uncached is a client without a cache, for the checkpoints.
	Uncached client.Client
}

// AddToManager adds the collector, the checkpointer and the backfiller to the manager, and
// returns the Recommender that they feed.
func AddToManager(ctx context.Context, mgr ctrl.Manager, source Source, options Options) (*Recommender, error) {
	// The first reading of usage needs these, and can come before any controller starts.
	for _, kind := range []client.Object{&corev1.Node{}, &corev1.LimitRange{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("cache %T: %w", kind, err)
		}
	}
	metrics, err := newMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	checkpointer := &Checkpointer{
		client: options.Uncached, namespaces: options.Namespaces, fieldOwner: fieldOwner,
		histories: history.NewStore(), interval: options.Usage.CheckpointInterval, metrics: metrics,
	}
	recommender := newRecommender(mgr.GetCache(), checkpointer, metrics)
	recommender.readsPast = source.Past != nil
	if err := options.Metrics.Register(newGauges(recommender, mgr.Elected())); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	collector := newCollector(recommender, source, options.Usage.Interval)
	if err := errors.Join(mgr.Add(checkpointer), mgr.Add(collector)); err != nil {
		return nil, fmt.Errorf("add the collector of usage: %w", err)
	}
	if source.Past != nil {
		backfiller := &Backfiller{Recommender: recommender, past: source.Past, length: options.Usage.History}
		if err := addBackfiller(mgr, backfiller); err != nil {
			return nil, fmt.Errorf("add the backfill controller: %w", err)
		}
	}
	return recommender, nil
}
