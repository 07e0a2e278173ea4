package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// recommendBench is a manager that makes recommendations for a number of VerticalScalers.
type recommendBench struct {
	*upright
	scalers int
	// cycle is the time between two readings of usage.
	cycle time.Duration
}

// BenchmarkRecommend measures the costs of recommendations for Deployments with a steady usage:
// first without any history, then with histories of two weeks. Sizes are not applied.
func BenchmarkRecommend(b *testing.B) {
	scalers := fullOr(1000, 20)
	b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
		r := recommendBench{upright: startCluster(b, 0), scalers: scalers, cycle: fullOr(15*time.Second, 5*time.Second)}
		r.createScaled(b, scalers, nil, autoscalingv1beta1.VerticalScalerSpec{UpdateMode: autoscalingv1beta1.UpdateModeOff})

		learning := r.learn(b)
		r.stopManager(b)
		r.ageHistories(b, scalers)
		r.start(b)
		r.waitScalers(b, scalers, historySpan/2) // Only the prepared histories are that long.
		steady, reconciles := r.measureSteady(b)
		stop, restart := r.restart(b)

		all := requests(b, r.cluster.AuditLog())
		r.reportLearning(b, all, learning)
		r.reportSteady(b, all, steady)
		b.ReportMetric(reconciles/r.cycles(steady.span), "reconciles/cycle")
		saved := selected(between(all, stop.from, stop.to), isCheckpoint)
		b.ReportMetric(r.perScaler(saved), "checkpoints-at-stop/scaler")
		reportNoWrites(b, "writes-after-restart", selected(between(all, restart.from, restart.to), isWrite))
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is pauses.
	})
}

// start starts the manager.
func (r *recommendBench) start(b *testing.B, args ...string) {
	b.Helper()
	r.startManager(b, append(args, "--metrics-interval="+r.cycle.String())...)
}

// learn starts the manager without any history and measures its first minutes. They begin when
// every scaler has a recommendation.
func (r *recommendBench) learn(b *testing.B) (learning consumption) {
	b.Helper()
	begin := time.Now()
	r.start(b, "--checkpoint-interval="+checkpointInterval().String())
	r.waitScalers(b, r.scalers, 0)
	b.ReportMetric(time.Since(begin).Seconds(), "s-to-recommended")
	return measureProcess(b, r.manager.PID(), fullOr[time.Duration](12, 4)*r.cycle)
}

// measureSteady measures cycles without changes, and counts the reconciles of scalers in them.
func (r *recommendBench) measureSteady(b *testing.B) (steady consumption, reconciles float64) {
	b.Helper()
	const name, controller = "controller_runtime_reconcile_total", "verticalscaler"
	before := r.scrape(b).count(b, name, controller)
	steady = measureProcess(b, r.manager.PID(), fullOr[time.Duration](8, 2)*r.cycle)
	return steady, r.scrape(b).count(b, name, controller) - before
}

// restart restarts the manager. It returns the interval in which the manager stopped, and the
// interval from its start until some cycles later.
func (r *recommendBench) restart(b *testing.B) (stop, run span) {
	b.Helper()
	stop.from = time.Now()
	r.stopManager(b)
	stop.to = time.Now()
	r.start(b)
	sleep(fullOr[time.Duration](4, 2) * r.cycle)
	return stop, span{stop.to, time.Now()}
}

// checkpointInterval is short, so that the first minutes contain several of them.
func checkpointInterval() time.Duration { return fullOr(time.Minute, 5*time.Second) }

// cycles returns the number of cycles in an interval.
func (r *recommendBench) cycles(in span) float64 {
	return in.to.Sub(in.from).Seconds() / r.cycle.Seconds()
}

func (r *recommendBench) perScaler(requests []request) float64 {
	return float64(len(requests)) / float64(r.scalers)
}

// reportLearning reports what the manager wrote and used in its first minutes.
func (r *recommendBench) reportLearning(b *testing.B, all []request, learning consumption) {
	b.Helper()
	cycles, written := r.cycles(learning.span), selected(between(all, learning.from, learning.to), isWrite)
	b.ReportMetric(float64(len(selected(written, isScalerStatus)))/cycles, "first-status-writes/cycle")
	b.ReportMetric(learning.cpu/cycles, "first-CPU-s/cycle")
	b.ReportMetric(learning.peak, "first-peak-B")
	sinceStart := selected(between(all, time.Time{}, learning.to), isWrite)
	b.ReportMetric(r.perScaler(selected(sinceStart, request.isEvent)), "first-events/scaler")
	b.ReportMetric(checkpointsPerInterval(b, selected(sinceStart, isCheckpoint)), "checkpoints/interval")
}

// checkpointsPerInterval returns the number of writes of a scaler's checkpoint per checkpoint
// interval: the interval divided by the average time between two writes.
func checkpointsPerInterval(b *testing.B, written []request) float64 {
	b.Helper()
	last := map[string]time.Time{}
	var between time.Duration
	gaps := 0
	for _, r := range written {
		if previous, isRepeated := last[r.Object.Name]; isRepeated {
			between += r.Received.Sub(previous)
			gaps++
		}
		last[r.Object.Name] = r.Received
	}
	require.Positive(b, gaps, "number of checkpoints that were written again")
	return checkpointInterval().Seconds() * float64(gaps) / between.Seconds()
}

// reportSteady reports what the manager wrote and used in cycles without changes.
func (r *recommendBench) reportSteady(b *testing.B, all []request, steady consumption) {
	b.Helper()
	cycles, sent := r.cycles(steady.span), between(all, steady.from, steady.to)
	written := selected(sent, isWrite)
	b.ReportMetric(float64(len(written))/cycles, "writes/cycle")
	if len(written) > 0 {
		b.Logf("writes in cycles without changes: %v", written)
	}
	b.ReportMetric(float64(len(sent))/cycles, "requests/cycle")
	b.ReportMetric(float64(len(selected(sent, isLease)))/cycles, "lease-requests/cycle")
	b.ReportMetric(steady.cpu/cycles, "CPU-s/cycle")
	b.ReportMetric(steady.resident, "resident-B")
	b.ReportMetric(steady.peak, "peak-B")
}

func isScalerStatus(r request) bool {
	return r.Object.Resource == "verticalscalers" && r.Object.Subresource == "status"
}

func isCheckpoint(r request) bool {
	return r.Object.Resource == "verticalscalercheckpoints" && isWrite(r)
}
