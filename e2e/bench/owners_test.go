package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
)

// span is from one time to another.
type span struct{ from, to time.Time }

// BenchmarkOwners counts what the manager writes while as many Busyboxes as
// Memcacheds become available and are left alone, and how many of them ever said
// that they are available when they were not.
func BenchmarkOwners(b *testing.B) {
	perKind := fullOr(300, 10)
	b.Run(fmt.Sprintf("objects=%d", 2*perKind), func(b *testing.B) {
		u := start(b)
		objects := append(busyboxes(perKind, 2), memcacheds(perKind, 2)...)
		record := startRecord(b, u.client)

		first, after := becomeAvailable(b, u, record, objects)
		restart := restartManager(b, u)
		change(b, u, record, objects)

		record.end(b, u.client)
		all := writes(b, u.cluster.AuditLog())
		reportWrites(b, between(all, first.from, first.to), objects)
		reportNoWrites(b, "writes-in-minute-after", between(all, after.from, after.to))
		reportNoWrites(b, "writes-in-minute-after-restart", between(all, restart.from, restart.to))
		claims, early := judge(record.owners, record.deployments)
		require.GreaterOrEqual(b, claims, 3*len(objects), "times an object said that it is available")
		b.ReportMetric(float64(len(early)), "early-available")
		if len(early) > 0 {
			b.Logf("available too early: %v", early)
		}
		b.ReportMetric(0, "ns/op") // Most of the time is spent waiting out minutes.
	})
}

// becomeAvailable creates the objects. It returns the time from then until they
// have been available for a minute, and that minute.
func becomeAvailable(b *testing.B, u *upright, record *record, objects []client.Object) (whole, minute span) {
	b.Helper()
	whole.from = time.Now()
	u.create(b, objects)
	record.waitAvailable(b, objects, 1)
	minute.from = time.Now()
	pass(aMinute())
	whole.to = time.Now()
	minute.to = whole.to
	return whole, minute
}

// restartManager restarts the manager and returns the time from then until it has
// been ready for a minute.
func restartManager(b *testing.B, u *upright) span {
	b.Helper()
	u.stopManager(b)
	from := time.Now()
	u.startManager(b)
	pass(aMinute())
	return span{from, time.Now()}
}

// change scales all objects up, and then changes their images.
func change(b *testing.B, u *upright, record *record, objects []client.Object) {
	b.Helper()
	u.patch(b, objects, `{"size":3}`)
	record.waitAvailable(b, objects, 2)
	u.patch(b, objects, `{"image":"example.com/another:1"}`)
	record.waitAvailable(b, objects, 3)
}

// reportWrites reports what was written for the objects, on average and for that
// one for which the most was written.
func reportWrites(b *testing.B, requests []request, objects []client.Object) {
	b.Helper()
	most := 0
	for _, object := range objects {
		own := selected(requests, func(r request) bool { return r.Object.Namespace == namespace && r.of(object.GetName()) })
		most = max(most, len(own))
	}
	count := float64(len(objects))
	b.ReportMetric(float64(len(requests))/count, "writes/object")
	b.ReportMetric(float64(len(selected(requests, request.isEvent)))/count, "events/object")
	b.ReportMetric(float64(most), "max-writes/object")
}

func reportNoWrites(b *testing.B, unit string, requests []request) {
	b.Helper()
	b.ReportMetric(float64(len(requests)), unit)
	if len(requests) > 0 {
		b.Logf("%s: %v", unit, requests)
	}
}

func memcacheds(count int, size int32) []client.Object {
	objects := make([]client.Object, count)
	for i := range objects {
		memcached := &cachev1alpha1.Memcached{Spec: cachev1alpha1.MemcachedSpec{Size: &size}}
		memcached.Namespace, memcached.Name = namespace, fmt.Sprintf("memcached-%d", i)
		objects[i] = memcached
	}
	return objects
}

// aMinute is how long the manager is watched doing nothing.
func aMinute() time.Duration { return fullOr(time.Minute, 4*time.Second) }

// pass lets time go by. That nothing is written in it is what is measured, so
// there is nothing to wait for.
func pass(d time.Duration) { <-time.NewTimer(d).C }
