package recommendation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
	"example.com/upright/internal/history"
	"example.com/upright/internal/sizing"
	"example.com/upright/internal/usage"
)

const (
	// readTimeout bounds a reading of usage.
	readTimeout = 30 * time.Second
	// firstReadWait is how long reconciles wait for the first reading.
	firstReadWait = 5 * time.Second
	// A sample is stale when it is older than staleAfter and than staleReadings intervals.
	staleAfter    = 10 * time.Minute
	staleReadings = 5
	// failuresToReport is how many readings in a row must fail before the scalers report it. A
	// single failure is usually a restart of metrics-server.
	failuresToReport = 2
)

// Collector reads usage on a timer, adds it to the histories, and triggers a reconcile of the
// scalers whose recommendation has changed.
type Collector struct {
	*Recommender
	source   usage.Source
	interval time.Duration
	filter   *usage.Filter
	failures int // Failed readings in a row.
	clocks   *clocks
}

func newCollector(recommender *Recommender, source usage.Source, interval time.Duration) *Collector {
	maxAge := max(staleAfter, staleReadings*interval)
	return &Collector{
		Recommender: recommender, source: source, interval: interval,
		filter: usage.NewFilter(maxAge), clocks: newClocks(maxAge),
	}
}

// NeedLeaderElection returns true: only the leader reads usage.
func (*Collector) NeedLeaderElection() bool { return true }

// Start reads usage until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("usage"))
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	endWait := sync.OnceFunc(func() { close(c.firstReading) })
	defer time.AfterFunc(firstReadWait, endWait).Stop()
	c.collect(ctx)
	endWait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.collect(ctx)
		}
	}
}

// collect reads usage once and learns from it. It restores the checkpoints first, because a
// sample that has been read is not read again.
func (c *Collector) collect(ctx context.Context) {
	defer c.metrics.observeCycle(time.Now())
	err := c.checkpointer.restore(ctx)
	if err == nil {
		err = c.readAndLearn(ctx)
	}
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Cannot learn from usage; the next reading tries again")
	}
}

func (c *Collector) readAndLearn(ctx context.Context) error {
	read, err := c.read(ctx)
	if err != nil {
		return err
	}
	return c.learn(ctx, read)
}

// read returns the new samples.
func (c *Collector) read(ctx context.Context) (*reading, error) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	samples, err := c.source.Read(limited)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.metrics.failures.Inc()
		return nil, errors.Join(fmt.Errorf("read usage: %w", err), c.reportFailure(ctx, err))
	}
	c.metrics.read.Add(float64(len(samples)))
	found := len(samples)
	fresh, dropped := c.filter.Fresh(samples, time.Now())
	c.metrics.countFiltered(fresh, dropped)
	c.reportSuccess(ctx)
	return newReading(fresh, causeOf(found, dropped)), nil
}

// reportFailure makes the scalers report that usage cannot be read, unless the failure may be
// momentary. A new leader that reads too slowly for a moment must not write the status of every
// scaler.
func (c *Collector) reportFailure(ctx context.Context, err error) error {
	c.failures++
	if c.failures < failuresToReport {
		return nil
	}
	advice := err.Error()
	if explained, ok := errors.AsType[*usage.Error](err); ok {
		advice = explained.Advice
	}
	if previous := c.unavailable.Swap(&advice); previous != nil && *previous == advice {
		return nil
	}
	return c.TriggerAll(ctx)
}

// reportSuccess ends the report of failures. The scalers that have usage again are triggered when
// it is learned.
func (c *Collector) reportSuccess(ctx context.Context) {
	c.failures = 0
	if c.unavailable.Swap(nil) != nil {
		log.FromContext(ctx).Info("Usage can be read again")
	}
}

// learn adds samples to the histories. All scalers of a Deployment learn the same, so a younger
// scaler that takes over has the same history.
func (c *Collector) learn(ctx context.Context, read *reading) error {
	if _, err := c.measureNodes(ctx); err != nil {
		return err
	}
	known := c.histories.Scalers() // Before the list, so that a scaler created in between is kept.
	scalers, err := c.scalers(ctx)
	if err != nil {
		return err
	}
	c.forgetDeleted(known, scalers)
	var changed []*autoscalingv1beta1.VerticalScaler
	var errs []error // The failure of one scaler does not stop the others.
	for i := range scalers {
		if scalers[i].Spec.Suspend || scalers[i].Spec.DecodeError != "" || !scalers[i].DeletionTimestamp.IsZero() {
			c.clocks.forget(scalers[i].UID)
			continue
		}
		isChanged, err := c.learnFor(ctx, &scalers[i], read)
		if err != nil {
			errs = append(errs, fmt.Errorf("learn for VerticalScaler %s/%s: %w", scalers[i].Namespace, scalers[i].Name, err))
		}
		if isChanged {
			changed = append(changed, &scalers[i])
		}
	}
	c.metrics.countOutcomes(read)
	for _, scaler := range changed {
		if err := c.Trigger(ctx, scaler); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// forgetDeleted drops the histories of the known scalers that are not in the list.
func (c *Collector) forgetDeleted(known map[types.UID]bool, scalers []autoscalingv1beta1.VerticalScaler) {
	for i := range scalers {
		delete(known, scalers[i].UID)
	}
	c.histories.Forget(known)
	for uid := range known {
		c.clocks.forget(uid)
		c.problems.forget(uid)
	}
}

// learnFor adds the samples of a scaler's pods to its history, and reports whether the
// recommendation, or what is wrong with its usage, has changed enough to be published.
func (c *Collector) learnFor(
	ctx context.Context, scaler *autoscalingv1beta1.VerticalScaler, read *reading,
) (isChanged bool, err error) {
	targetPods, err := TargetPods(ctx, c.cache, scaler)
	if err != nil {
		return false, err
	}
	workload := c.History(scaler)
	hasLearned := false
	for i := range targetPods {
		read.forPod(&targetPods[i], func(sample *usage.Sample) outcome {
			result := learnSample(workload, sample)
			hasLearned = hasLearned || result == attributed
			if result == attributed || result == seen {
				c.clocks.sample(scaler.UID, sample)
			}
			return result
		})
	}
	if problem, isKnown := c.clocks.check(scaler, targetPods, read.cause, time.Now()); isKnown {
		c.problems.setUsage(scaler, problem)
	}
	if meta.IsStatusConditionTrue(scaler.Status.Conditions, autoscalingv1beta1.ConditionConflicted) {
		return false, nil
	}
	if c.hasNewProblem(scaler, workload) {
		return true, nil
	}
	if !hasLearned {
		return false, nil
	}
	constraints, err := c.Constraints(ctx, scaler.Namespace, targetPods)
	if err != nil {
		return false, err
	}
	result := c.Recommend(scaler, workload, nil, targetPods, constraints)
	return sizing.Changed(scaler.Status.Recommendations, result.Recommendations), nil
}

// learnSample adds a sample to a history, unless a previous manager did.
func learnSample(workload *history.WorkloadHistory, sample *usage.Sample) outcome {
	if sample.Time.Unix() <= workload.Restored().Unix() {
		return seen
	}
	if err := workload.AddUsage(sample.Container, sample.Time, sample.CPU, sample.Memory); err != nil {
		return unusable
	}
	return attributed
}
