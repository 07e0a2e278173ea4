package controllers

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/usage"
)

// passCounter is a manager's cache that counts the passes over each VerticalScaler.
type passCounter struct {
	cache.Cache
	mutex sync.Mutex
	count map[string]int
}

func (p *passCounter) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, isScaler := obj.(*autoscalingv1beta1.VerticalScaler); isScaler && controller.ReconcileIDFromContext(ctx) != "" {
		p.mutex.Lock()
		p.count[key.Name]++
		p.mutex.Unlock()
	}
	return p.Cache.Get(ctx, key, obj, opts...)
}

// use makes it the manager's cache.
func (p *passCounter) use(options *ctrl.Options, _ *rest.Config) {
	p.count = map[string]int{}
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		inner, err := cache.New(config, options)
		p.Cache = inner
		return p, err
	}
}

// over returns how many passes there were over a scaler so far.
func (p *passCounter) over(scaler client.Object) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.count[scaler.GetName()]
}

func TestOnlyAScalerWithNewsIsWoken(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	web, podOfWeb := measured(t, namespace, "web", "app")
	shop, podOfShop := measured(t, namespace, "shop", "app")
	var source meter
	samples := uses(podOfWeb, "app", 0.2, 300, 1)
	source.show(append(samples, uses(podOfShop, "app", 0.2, 300, 1)...)...)
	var passes passCounter
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, passes.use)
	scalerIs(t, web, isTrue, "Recommended")
	scalerIs(t, shop, isTrue, "Recommended")
	// A status that was written makes a pass, too.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, passes.over(web), 2)
		assert.GreaterOrEqual(c, passes.over(shop), 2)
	}, soon, often)
	source.settle(t)
	overWeb, overShop := passes.over(web), passes.over(shop)

	more := append(uses(podOfWeb, "app", 0.8, 900, 1), uses(podOfShop, "app", 0.2, 300, 1)...)
	source.show(more...)
	recommends(t, web, figuresOf(t, append(samples, more[0]), "app")...)
	source.settle(t)
	assert.Greater(t, passes.over(web), overWeb)
	assert.Equal(t, overShop, passes.over(shop))
}

func TestSteadyUsageWritesNothing(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	source.show(uses(pod, "app", 0.2, 300, 9)...)
	var wrote writes
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source}, wrote.record)
	scalerIs(t, scaler, isTrue, "Recommended")
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, wrote.to("/events"), 1) }, soon, often)
	before := wrote.all()
	for range 20 {
		source.show(uses(pod, "app", 0.2, 300, 1)...)
		source.settle(t)
	}
	assert.GreaterOrEqual(t, value(t, m, "upright_usage_samples_attributed_total"), 29.0, "it has learned all the time")
	assert.Equal(t, before, wrote.all())
	assert.Len(t, wrote.to("/status"), 1)
	assert.Equal(t, int64(9), refresh(t, scaler).Status.Recommendations[0].Samples, "as of when it was written")
}

func TestABoundThatMovesByATenthIsNewsThoughTheTargetStays(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	var source meter
	samples := uses(pod, "app", 0.2, 300, 9)
	source.show(samples[:2]...)
	startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	recommends(t, scaler, figuresOf(t, samples[:2], "app")...)
	first := refresh(t, scaler).Status.Recommendations[0]

	source.show(samples[2:]...)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		now := refresh(c, scaler).Status.Recommendations[0]
		assert.Negative(c, now.UpperBound.Cpu().Cmp(*first.UpperBound.Cpu()), "it comes down the more is known")
		assertSame(c, first.Target, now.Target)
	}, soon, often)
}

func TestAScalerOfAPodWithoutNewSamplesIsNotLookedAt(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	scaler, pod := measured(t, namespace, "web", "app")
	stale := uses(pod, "app", 0.2, 300, 1)
	for i := range stale {
		stale[i].Time = stale[i].Time.Add(-2 * staleAfter)
	}
	unusable := uses(pod, "app", -1, 300, 1)
	var source meter
	source.show(append(stale, unusable...)...)
	m := startManagerWith(t, namespace, newOptions(), usageSource{Source: &source})
	scalerIs(t, scaler, isFalse, "NoSamples")
	source.settle(t)
	assert.Zero(t, value(t, m, "upright_usage_samples_attributed_total"))
	assert.Zero(t, value(t, m, "upright_usage_newest_sample_age_seconds"))
	assert.Positive(t, value(t, m, "upright_usage_samples_dropped_total", "stale"))
	assert.Positive(t, value(t, m, "upright_usage_samples_dropped_total", "unusable"))

	samples := []usage.Sample{uses(pod, "app", 0.2, 300, 1)[0]}
	source.show(samples...)
	recommends(t, scaler, figuresOf(t, samples, "app")...)
}
