package bench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkBurst creates many Busyboxes at the same time. It measures the time until
// all are available, and how long they are in the work queue.
func BenchmarkBurst(b *testing.B) {
	count := fullOr(1000, 20)
	b.Run(fmt.Sprintf("objects=%d", count), func(b *testing.B) {
		u := start(b)
		objects := busyboxes(count, 1)
		log := startStateLog(b, u.client)

		b.ResetTimer()
		begin := time.Now()
		u.create(b, objects)
		log.waitAvailable(b, objects, 1)
		took := time.Since(begin).Seconds()
		b.StopTimer()

		waits := u.scrape(b).of(b, "workqueue_queue_duration_seconds", "busybox")[0].GetHistogram()
		b.ReportMetric(took, "s-to-available")
		b.ReportMetric(float64(count)/took, "objects/s")
		b.ReportMetric(quantile(waits, 0.99), "p99-queue-s")
		b.ReportMetric(0, "ns/op") // Omit it: it equals s-to-available.
	})
}
