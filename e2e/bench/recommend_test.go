package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	autoscalingv1beta1 "example.com/upright/apis/autoscaling/v1beta1"
)

// recommending is the manager while it recommends for a number of VerticalScalers.
type recommending struct {
	*upright
	scalers int
	// cycle is the time from one reading of usage to the next.
	cycle time.Duration
}

// BenchmarkRecommend measures what it costs to recommend for Deployments whose usage
// is steady: at first, when nothing has been learned, and with histories of weeks. What is
// recommended is not applied.
func BenchmarkRecommend(b *testing.B) {
	scalers := fullOr(1000, 20)
	b.Run(fmt.Sprintf("scalers=%d", scalers), func(b *testing.B) {
		r := recommending{upright: startCluster(b, 0), scalers: scalers, cycle: fullOr(15*time.Second, 5*time.Second)}
		r.createScaled(b, scalers, nil, autoscalingv1beta1.VerticalScalerSpec{UpdateMode: autoscalingv1beta1.UpdateModeOff})

		learning := r.learn(b)
		r.stopManager(b)
		r.ageHistories(b, scalers)
		r.start(b)
		r.waitScalers(b, scalers, learned/2) // Which they have not learned here.
		steady, reconciles := r.rest(b)
		stop, restart := r.restart(b)

		all := requests(b, r.cluster.AuditLog())
		r.reportLearning(b, all, learning)
		r.reportSteady(b, all, steady)
		b.ReportMetric(reconciles/r.cycles(steady.span), "reconciles/cycle")
		saved := selected(between(all, stop.from, stop.to), isCheckpoint)
		b.ReportMetric(r.perScaler(saved), "checkpoints-at-stop/scaler")
		reportNoWrites(b, "writes-after-restart", selected(between(all, restart.from, restart.to), isWrite))
		b.ReportMetric(0, "ns/op") // Most of the time is spent watching cycles go by.
	})
}

// start starts the manager.
func (r *recommending) start(b *testing.B, args ...string) {
	b.Helper()
	r.startManager(b, append(args, "--metrics-interval="+r.cycle.String())...)
}

// learn starts the manager, which knows nothing, and measures its first minutes. They
// begin when every scaler has its recommendation.
func (r *recommending) learn(b *testing.B) (learning consumption) {
	b.Helper()
	begin := time.Now()
	r.start(b, "--checkpoint-interval="+checkpointInterval().String())
	r.waitScalers(b, r.scalers, 0)
	b.ReportMetric(time.Since(begin).Seconds(), "s-to-recommended")
	return observe(b, r.manager.PID(), fullOr[time.Duration](12, 4)*r.cycle)
}

// rest measures cycles in which there is nothing to say, and how many passes over
// scalers there are in them.
func (r *recommending) rest(b *testing.B) (steady consumption, reconciles float64) {
	b.Helper()
	const name, controller = "controller_runtime_reconcile_total", "verticalscaler"
	before := r.scrape(b).count(b, name, controller)
	steady = observe(b, r.manager.PID(), fullOr[time.Duration](8, 2)*r.cycle)
	return steady, r.scrape(b).count(b, name, controller) - before
}

// restart restarts the manager. It returns the time in which it stopped, and that
// from its start until it has had some cycles.
func (r *recommending) restart(b *testing.B) (stop, run span) {
	b.Helper()
	stop.from = time.Now()
	r.stopManager(b)
	stop.to = time.Now()
	r.start(b)
	pass(fullOr[time.Duration](4, 2) * r.cycle)
	return stop, span{stop.to, time.Now()}
}

// checkpointInterval is short in the first minutes, so that some go by.
func checkpointInterval() time.Duration { return fullOr(time.Minute, 5*time.Second) }

// cycles returns how many cycles there are in a time.
func (r *recommending) cycles(of span) float64 {
	return of.to.Sub(of.from).Seconds() / r.cycle.Seconds()
}

func (r *recommending) perScaler(requests []request) float64 {
	return float64(len(requests)) / float64(r.scalers)
}

// reportLearning reports what was written and used while the histories were short.
func (r *recommending) reportLearning(b *testing.B, all []request, learning consumption) {
	b.Helper()
	cycles, written := r.cycles(learning.span), selected(between(all, learning.from, learning.to), isWrite)
	b.ReportMetric(float64(len(selected(written, isScalerStatus)))/cycles, "first-status-writes/cycle")
	b.ReportMetric(learning.cpu/cycles, "first-CPU-s/cycle")
	b.ReportMetric(learning.most, "first-peak-B")
	sinceStart := selected(between(all, time.Time{}, learning.to), isWrite)
	b.ReportMetric(r.perScaler(selected(sinceStart, request.isEvent)), "first-events/scaler")
	b.ReportMetric(checkpointsPerInterval(b, selected(sinceStart, isCheckpoint)), "checkpoints/interval")
}

// checkpointsPerInterval returns how many writes of a scaler's checkpoint there are in
// an interval of checkpoints: as many as the intervals between them are shorter than it.
func checkpointsPerInterval(b *testing.B, written []request) float64 {
	b.Helper()
	last := map[string]time.Time{}
	var between time.Duration
	gaps := 0
	for _, r := range written {
		if before, again := last[r.Object.Name]; again {
			between += r.Received.Sub(before)
			gaps++
		}
		last[r.Object.Name] = r.Received
	}
	require.Positive(b, gaps, "checkpoints written more than once")
	return checkpointInterval().Seconds() * float64(gaps) / between.Seconds()
}

// reportSteady reports what was written and used while there was nothing new to say.
func (r *recommending) reportSteady(b *testing.B, all []request, steady consumption) {
	b.Helper()
	cycles, asked := r.cycles(steady.span), between(all, steady.from, steady.to)
	written := selected(asked, isWrite)
	b.ReportMetric(float64(len(written))/cycles, "writes/cycle")
	if len(written) > 0 {
		b.Logf("writes in the steady state: %v", written)
	}
	b.ReportMetric(float64(len(asked))/cycles, "requests/cycle")
	b.ReportMetric(float64(len(selected(asked, isLease)))/cycles, "lease-requests/cycle")
	b.ReportMetric(steady.cpu/cycles, "CPU-s/cycle")
	b.ReportMetric(steady.resident, "resident-B")
	b.ReportMetric(steady.most, "peak-B")
}

func isScalerStatus(r request) bool {
	return r.Object.Resource == "verticalscalers" && r.Object.Subresource == "status"
}

func isCheckpoint(r request) bool {
	return r.Object.Resource == "verticalscalercheckpoints" && isWrite(r)
}
