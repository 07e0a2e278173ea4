package testenv

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// WrapCache makes the manager use a wrapped cache.
func WrapCache(wrap func(cache.Cache) cache.Cache) Change {
	return func(options *ctrl.Options, _ *rest.Config) {
		newCache := options.NewCache
		if newCache == nil {
			newCache = cache.New
		}
		options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			inner, err := newCache(config, options)
			if err != nil {
				return nil, err
			}
			return wrap(inner), nil
		}
	}
}

// Reconciles counts the reconciles of each VerticalScaler: each reads its scaler from the cache.
type Reconciles struct {
	mutex sync.Mutex
	count map[client.ObjectKey]int
}

// Count is a Change that counts the manager's reconciles.
func (r *Reconciles) Count(options *ctrl.Options, config *rest.Config) {
	WrapCache(func(inner cache.Cache) cache.Cache { return &countingCache{inner, r} })(options, config)
}

// Of returns how often a scaler has been reconciled.
func (r *Reconciles) Of(scaler client.Object) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.count[client.ObjectKeyFromObject(scaler)]
}

func (r *Reconciles) add(scaler client.ObjectKey) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.count == nil {
		r.count = map[client.ObjectKey]int{}
	}
	r.count[scaler]++
}

type countingCache struct {
	cache.Cache
	reconciles *Reconciles
}

func (c *countingCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, isScaler := obj.(*autoscalingv1beta1.VerticalScaler); isScaler && controller.ReconcileIDFromContext(ctx) != "" {
		c.reconciles.add(key)
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}
