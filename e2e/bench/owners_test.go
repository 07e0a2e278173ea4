package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/upright/apis/cache/v1alpha1"
)

// span is an interval of time.
type span struct{ from, to time.Time }

// BenchmarkOwners creates Busyboxes and Memcacheds, waits, and changes them. It counts the
// manager's writes, and the objects with Available=True while they are not available.
func BenchmarkOwners(b *testing.B) {
	perKind := fullOr(300, 10)
	b.Run(fmt.Sprintf("objects=%d", 2*perKind), func(b *testing.B) {
		u := start(b)
		objects := append(busyboxes(perKind, 2), memcacheds(perKind, 2)...)
		log := startStateLog(b, u.client)

		first, after := createAvailable(b, u, log, objects)
		restart := restartManager(b, u)
		change(b, u, log, objects)

		log.end(b, u.client)
		all := writes(b, u.cluster.AuditLog())
		reportWrites(b, between(all, first.from, first.to), objects)
		reportNoWrites(b, "writes-in-minute-after", between(all, after.from, after.to))
		reportNoWrites(b, "writes-in-minute-after-restart", between(all, restart.from, restart.to))
		claims, early := checkClaims(log.owners, log.deployments)
		require.GreaterOrEqual(b, claims, 3*len(objects), "number of times that Available became True")
		b.ReportMetric(float64(len(early)), "early-available")
		if len(early) > 0 {
			b.Logf("Available=True too early: %v", early)
		}
		b.ReportMetric(0, "ns/op") // Omit it: most of the time is pauses.
	})
}

// createAvailable creates the objects and waits until all have been available for a minute. It
// returns the whole interval, and that minute.
func createAvailable(b *testing.B, u *upright, log *stateLog, objects []client.Object) (whole, minute span) {
	b.Helper()
	whole.from = time.Now()
	u.create(b, objects)
	log.waitAvailable(b, objects, 1)
	minute.from = time.Now()
	sleep(quietTime())
	whole.to = time.Now()
	minute.to = whole.to
	return whole, minute
}

// restartManager restarts the manager. It returns the interval from the start until the manager
// has been ready for a minute.
func restartManager(b *testing.B, u *upright) span {
	b.Helper()
	u.stopManager(b)
	from := time.Now()
	u.startManager(b)
	sleep(quietTime())
	return span{from, time.Now()}
}

// change scales up all objects, and then changes their images.
func change(b *testing.B, u *upright, log *stateLog, objects []client.Object) {
	b.Helper()
	u.patch(b, objects, `{"size":3}`)
	log.waitAvailable(b, objects, 2)
	u.patch(b, objects, `{"image":"example.com/another:1"}`)
	log.waitAvailable(b, objects, 3)
}

// reportWrites reports the number of writes per object: the average and the maximum.
func reportWrites(b *testing.B, requests []request, objects []client.Object) {
	b.Helper()
	highest := 0
	for _, object := range objects {
		own := selected(requests, func(r request) bool { return r.Object.Namespace == namespace && r.concerns(object.GetName()) })
		highest = max(highest, len(own))
	}
	count := float64(len(objects))
	b.ReportMetric(float64(len(requests))/count, "writes/object")
	b.ReportMetric(float64(len(selected(requests, request.isEvent)))/count, "events/object")
	b.ReportMetric(float64(highest), "max-writes/object")
}

// reportNoWrites reports the number of writes and logs them. The expected number is 0.
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

// quietTime is how long a benchmark counts writes while there is nothing to do: a minute, or less
// in the short form.
func quietTime() time.Duration { return fullOr(time.Minute, 4*time.Second) }

// sleep is for intervals in which nothing should happen, and for metrics, which cannot be watched.
func sleep(d time.Duration) { <-time.NewTimer(d).C }
