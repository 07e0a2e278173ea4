package usage

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeSeries writes the response to a range query with series that have a value at each time of the
// range. It keeps nothing of it in memory.
func writeSeries(w http.ResponseWriter, r *http.Request, series int) {
	start, _ := strconv.ParseFloat(r.PostFormValue("start"), 64)
	end, _ := strconv.ParseFloat(r.PostFormValue("end"), 64)
	step, _ := strconv.ParseFloat(r.PostFormValue("step"), 64)
	w.Header().Set("Content-Type", contentJSON)
	_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
	for i := range series {
		separator := ","
		if i == 0 {
			separator = ""
		}
		_, _ = fmt.Fprintf(w, `%s{"metric":{"namespace":"team-a","pod":"web-6d4cf56db6-x%04d","container":"web"},"values":[`, separator, i)
		for at := start; at <= end; at += step {
			if at > start {
				_, _ = io.WriteString(w, ",")
			}
			_, _ = fmt.Fprintf(w, `[%.0f,"268435456"]`, at)
		}
		_, _ = io.WriteString(w, "]}")
	}
	_, _ = io.WriteString(w, "]}}")
}

// peakHeap returns by how many bytes the heap grows while a function runs.
func peakHeap(run func()) uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	before := stats.HeapAlloc
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var stats runtime.MemStats
		for {
			runtime.ReadMemStats(&stats)
			peak.Store(max(peak.Load(), stats.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	run()
	close(stop)
	<-stopped
	return max(peak.Load(), before) - before
}

// The test is not parallel: others would count. The bound includes garbage.
func TestMemoryOfHistoryIsBounded(t *testing.T) {
	const pods = 500
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: func(w http.ResponseWriter, r *http.Request) {
		writeSeries(w, r, pods)
	}}, PrometheusConfig{})
	read := func(steps int) (samples int, failure error) {
		span := Range{From: noon(), To: noon().Add(time.Duration(steps-1) * time.Minute), Step: time.Minute}
		for _, err := range prometheus.History(t.Context(), "team-a", ".*", span) {
			if err != nil {
				return samples, err
			}
			samples++
		}
		return samples, nil
	}
	for name, test := range map[string]struct {
		steps, samples int
		mebibytes      uint64
	}{
		"a part of 50,000 samples": {100, 100 * pods, 32},
		"a day":                    {1440, 0, 64}, // Its response is too large.
	} {
		t.Run(name, func(t *testing.T) {
			var samples int
			var err error
			grown := peakHeap(func() { samples, err = read(test.steps) })
			t.Logf("the heap grows by %d MiB", grown>>20)
			assert.Equal(t, test.samples, samples)
			if test.samples == 0 {
				require.ErrorIs(t, err, errResponseTooLarge)
			} else {
				require.NoError(t, err)
			}
			assert.Less(t, grown>>20, test.mebibytes)
		})
	}
}
