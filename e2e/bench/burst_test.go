package bench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkBurst measures how long it takes until Busyboxes that are created at
// once are available, and how long they wait in the work queue.
func BenchmarkBurst(b *testing.B) {
	count := fullOr(1000, 20)
	b.Run(fmt.Sprintf("objects=%d", count), func(b *testing.B) {
		u := start(b)
		objects := busyboxes(count, 1)
		record := startRecord(b, u.client)

		b.ResetTimer()
		begin := time.Now()
		u.create(b, objects)
		record.waitAvailable(b, objects, 1)
		took := time.Since(begin).Seconds()
		b.StopTimer()

		waits := u.scrape(b).of(b, "workqueue_queue_duration_seconds", "busybox")[0].GetHistogram()
		b.ReportMetric(took, "s-to-available")
		b.ReportMetric(float64(count)/took, "objects/s")
		b.ReportMetric(quantile(waits, 0.99), "p99-queue-s")
		b.ReportMetric(0, "ns/op") // The same as s-to-available.
	})
}
