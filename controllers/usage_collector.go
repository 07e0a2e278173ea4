package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/histories"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/usage"
)

const (
	// readTimeout bounds one reading of usage, firstReadTimeout the first: passes wait for it,
	// so that a new leader does not tell everybody that nothing is known.
	readTimeout      = 30 * time.Second
	firstReadTimeout = 5 * time.Second
	// staleAfter is the least age at which a sample is too old to say anything of the present,
	// and staleReadings the same in readings.
	staleAfter    = 10 * time.Minute
	staleReadings = 5
	// failuresToTell is how many readings in a row must fail before the scalers say so. A
	// single failure is a restart of metrics-server.
	failuresToTell = 2
)

// UsageCollector reads usage on a timer and adds it to what is known of the Deployments that
// scalers name. It wakes the scalers whose recommendation has changed by it.
type UsageCollector struct {
	*advisor
	restore  func(context.Context) error // What was learned before must be known first.
	source   usageSource
	interval time.Duration
	filter   *usage.Filter
	metrics  *usageMetrics
	wake     chan event.GenericEvent

	ready       chan struct{}          // Closed after the first reading.
	unavailable atomic.Pointer[string] // What to do about it; nil while usage can be read.
	failures    int
}

func newUsageCollector(
	advisor *advisor, restore func(context.Context) error, source usageSource, interval time.Duration, metrics *usageMetrics,
) *UsageCollector {
	return &UsageCollector{
		advisor: advisor, restore: restore, source: source, interval: interval, metrics: metrics,
		filter: usage.NewFilter(max(staleAfter, staleReadings*interval)),
		wake:   make(chan event.GenericEvent),
		ready:  make(chan struct{}),
	}
}

// NeedLeaderElection says that only the leader reads usage.
func (*UsageCollector) NeedLeaderElection() bool { return true }

// Start reads usage until the context ends.
func (c *UsageCollector) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("usage"))
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	c.cycle(ctx, firstReadTimeout)
	close(c.ready)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.cycle(ctx, readTimeout)
		}
	}
}

// waitReady waits until usage has been read once, or could not be.
func (c *UsageCollector) waitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the first reading of usage: %w", ctx.Err())
	}
}

// cycle reads usage once and learns from it. What was learned before comes first: a sample
// that has been read is not read again.
func (c *UsageCollector) cycle(ctx context.Context, timeout time.Duration) {
	defer c.metrics.timeCycle(time.Now())
	err := c.restore(ctx)
	if err == nil {
		err = c.readAndLearn(ctx, timeout)
	}
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Learning from usage failed; it is tried again with the next reading")
	}
}

func (c *UsageCollector) readAndLearn(ctx context.Context, timeout time.Duration) error {
	samples, err := c.read(ctx, timeout)
	if err != nil {
		return err
	}
	return c.learn(ctx, samples)
}

// read returns the samples that have not been seen before.
func (c *UsageCollector) read(ctx context.Context, timeout time.Duration) ([]usage.Sample, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	samples, err := c.source.Read(limited)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.metrics.failures.Inc()
		return nil, errors.Join(fmt.Errorf("read usage: %w", err), c.tellFailure(ctx, err))
	}
	c.metrics.read.Add(float64(len(samples)))
	fresh, dropped := c.filter.Fresh(samples, time.Now())
	c.metrics.countFiltered(fresh, dropped)
	return fresh, c.tellSuccess(ctx)
}

// tellFailure has the scalers say that usage cannot be read, unless it may be a moment's trouble.
func (c *UsageCollector) tellFailure(ctx context.Context, err error) error {
	c.failures++
	isFirst := c.unavailable.Load() == nil && !c.isReady()
	if c.failures < failuresToTell && !isFirst {
		return nil
	}
	advice := err.Error()
	if explained, ok := errors.AsType[*usage.Error](err); ok {
		advice = explained.Advice
	}
	if before := c.unavailable.Swap(&advice); before != nil && *before == advice {
		return nil
	}
	return c.wakeAll(ctx)
}

// tellSuccess has the scalers say that usage can be read again, where they said that it cannot.
func (c *UsageCollector) tellSuccess(ctx context.Context) error {
	c.failures = 0
	if c.unavailable.Swap(nil) == nil {
		return nil
	}
	log.FromContext(ctx).Info("Usage can be read again")
	return c.wakeAll(ctx)
}

func (c *UsageCollector) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// unavailability returns what is wrong with the source of usage and what to do about it, or
// nothing where nothing is.
func (c *UsageCollector) unavailability() string {
	if advice := c.unavailable.Load(); advice != nil {
		return *advice
	}
	return ""
}

// learn adds samples to what is known for the scalers of the pods' Deployments. A Deployment
// with several scalers is learned for each, so that one that steps in knows what the one
// before knew.
func (c *UsageCollector) learn(ctx context.Context, samples []usage.Sample) error {
	if _, err := c.measureNodes(ctx); err != nil {
		return err
	}
	known := c.histories.Scalers() // Before the list, in which one that is new since would be missing.
	scalers, err := c.scalers(ctx)
	if err != nil {
		return err
	}
	c.forgetOthers(known, scalers)
	read := newReadSamples(samples)
	var news []*autoscalingv1beta1.VerticalScaler
	var errs []error // Of one scaler, which does not cost the others their samples.
	for i := range scalers {
		if scalers[i].Spec.Suspend || !scalers[i].DeletionTimestamp.IsZero() {
			continue
		}
		isNews, err := c.learnFor(ctx, &scalers[i], read)
		if err != nil {
			errs = append(errs, fmt.Errorf("learn for VerticalScaler %s/%s: %w", scalers[i].Namespace, scalers[i].Name, err))
		}
		if isNews {
			news = append(news, &scalers[i])
		}
	}
	c.metrics.countFates(read)
	for _, scaler := range news {
		if err := c.wakeOne(ctx, scaler); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// forgetOthers drops what was learned for scalers that are no more.
func (c *UsageCollector) forgetOthers(known map[types.UID]bool, scalers []autoscalingv1beta1.VerticalScaler) {
	for i := range scalers {
		delete(known, scalers[i].UID)
	}
	c.histories.Forget(known)
}

// learnFor adds the samples of a scaler's pods to its record, and reports whether the scaler
// has something new to say by that.
func (c *UsageCollector) learnFor(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, read *readSamples,
) (isNews bool, err error) {
	pods, err := podsOf(ctx, c.cache, scaler)
	if err != nil {
		return false, err
	}
	record := c.record(scaler)
	hasNew := false
	for i := range pods {
		read.each(&pods[i], func(sample *usage.Sample) fate {
			became := learnSample(record, sample)
			hasNew = hasNew || became == attributed
			return became
		})
	}
	if !hasNew || meta.IsStatusConditionTrue(scaler.Status.Conditions, autoscalingv1beta1.ConditionConflicted) {
		return false, nil
	}
	said, err := c.advise(ctx, scaler, record, pods)
	return err == nil && sizing.News(scaler.Status.Recommendations, said.recommendations), err
}

// learnSample adds a sample to a record, unless a manager before this one did.
func learnSample(record *histories.Record, sample *usage.Sample) fate {
	if sample.Time.Unix() <= record.Restored().Unix() {
		return seen
	}
	if err := record.AddUsage(sample.Container, sample.Time, sample.CPU, sample.Memory); err != nil {
		return unusable
	}
	return attributed
}

// scalers returns all scalers, read-only.
func (c *UsageCollector) scalers(ctx context.Context) ([]autoscalingv1beta1.VerticalScaler, error) {
	var scalers autoscalingv1beta1.VerticalScalerList
	if err := c.cache.List(ctx, &scalers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the VerticalScalers: %w", err)
	}
	return scalers.Items, nil
}

func (c *UsageCollector) wakeAll(ctx context.Context) error {
	scalers, err := c.scalers(ctx)
	if err != nil {
		return err
	}
	for i := range scalers {
		if err := c.wakeOne(ctx, &scalers[i]); err != nil {
			return err
		}
	}
	return nil
}

// wakeOne has a scaler looked at by its reconciler.
func (c *UsageCollector) wakeOne(ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler) error {
	woken := &autoscalingv1beta1.VerticalScaler{ObjectMeta: metav1.ObjectMeta{Namespace: scaler.Namespace, Name: scaler.Name}}
	select {
	case c.wake <- event.GenericEvent{Object: woken}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
