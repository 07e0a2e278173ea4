package usage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eachStep returns a function that returns a series for the range in a form. valueAt gets the number
// of steps since noon. A step has no point if its value is empty.
func eachStep(t *testing.T, labels string, valueAt func(step int) string) func(form map[string]string) string {
	t.Helper()
	return func(form map[string]string) string {
		start, step := seconds(t, form["start"]), seconds(t, form["step"])
		var points []string
		for at := start; at <= seconds(t, form["end"]); at += step {
			if v := valueAt(int((at - float64(noon().Unix())) / step)); v != "" {
				points = append(points, fmt.Sprintf("[%.3f,%q]", at, v))
			}
		}
		return fmt.Sprintf(`{"metric":%s,"values":[%s]}`, labels, strings.Join(points, ","))
	}
}

func seconds(t *testing.T, text string) float64 {
	t.Helper()
	parsed, err := strconv.ParseFloat(text, 64)
	assert.NoError(t, err)
	return parsed
}

func constant(text string) func(int) string { return func(int) string { return text } }

func TestHistoryYieldsEachTimeOnceInOrder(t *testing.T) {
	const steps = 1440
	fake := &fakePrometheus{cpu: eachStep(t, webLabels, strconv.Itoa), memory: eachStep(t, webLabels, constant("1024"))}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: fake.ServeHTTP}, PrometheusConfig{})

	next := 0
	span := Range{From: noon(), To: noon().Add(steps * time.Minute), Step: time.Minute}
	for sample, err := range prometheus.History(t.Context(), "team-a", "web-.*", span) {
		require.NoError(t, err)
		require.True(t, noon().Add(time.Duration(next)*time.Minute).Equal(sample.Time), sample.Time)
		require.InDelta(t, next, sample.CPU, 0)
		require.Equal(t, int64(1024), sample.Memory)
		next++
	}
	assert.Equal(t, steps+1, next)
	assert.Len(t, fake.forms, 2)
}

func TestHistoryQueriesGivenPodsAndHighestMemoryOfEachStep(t *testing.T) {
	fake := &fakePrometheus{cpu: constantResult(), memory: constantResult()}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: fake.ServeHTTP}, PrometheusConfig{Namespaces: []string{"other"}})
	span := Range{From: noon(), To: noon().Add(90 * time.Minute), Step: time.Hour}
	for _, err := range prometheus.History(t.Context(), "team-a", `web-[a-z0-9]+\.x"`, span) {
		assert.Fail(t, "unexpected sample", "%v", err)
	}
	const matchers = `{container!="",container!="POD",namespace="team-a",pod=~"web-[a-z0-9]+\\.x\""}`
	times := map[string]string{"start": "1772366400", "end": "1772371800", "step": "3600"}
	const seconds = "container_cpu_usage_seconds_total" + matchers
	cpu := map[string]string{"query": "max by (namespace, pod, container) (rate(" + seconds + "[5m]) and " + seconds + ")" +
		" unless group by (namespace, pod, container) (" + seconds + " unless " + seconds + " offset 5m)"}
	memory := map[string]string{"query": "max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes" + matchers + "[1h]))"}
	for name, value := range times {
		cpu[name], memory[name] = value, value
	}
	assert.Equal(t, []map[string]string{cpu, memory}, fake.forms)
}

func TestHistorySkipsTimesWithoutCPUOrMemory(t *testing.T) {
	onlyAt := func(steps ...int) func(int) string {
		return func(step int) string {
			if slices.Contains(steps, step) {
				return strconv.Itoa(step)
			}
			return ""
		}
	}
	both := func(first, second func(map[string]string) string) func(map[string]string) string {
		return func(form map[string]string) string { return first(form) + "," + second(form) }
	}
	fake := &fakePrometheus{
		cpu:    both(eachStep(t, webLabels, onlyAt(1, 2, 4, 5, 7, 9)), eachStep(t, proxyLabels, onlyAt(0, 1))),
		memory: eachStep(t, webLabels, onlyAt(0, 2, 3, 5, 6, 7)),
	}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: fake.ServeHTTP}, PrometheusConfig{})
	var memory []int64
	for sample, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon().Add(9 * time.Minute), Step: time.Minute}) {
		require.NoError(t, err)
		assert.InDelta(t, sample.CPU, sample.Memory, 0)
		memory = append(memory, sample.Memory)
	}
	assert.Equal(t, []int64{2, 5, 7}, memory)
}

func TestHistoryYieldsInvalidAmountsAsUnusable(t *testing.T) {
	fake := &fakePrometheus{cpu: eachStep(t, webLabels, constant("NaN")), memory: eachStep(t, webLabels, constant("-1"))}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: fake.ServeHTTP}, PrometheusConfig{})
	samples := 0
	for sample, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
		require.NoError(t, err)
		assert.False(t, sample.Usable())
		samples++
	}
	assert.Equal(t, 1, samples)
}

func TestHistoryEndsWithFirstError(t *testing.T) {
	fake := &fakePrometheus{cpu: eachStep(t, webLabels, constant("1")), memory: eachStep(t, webLabels, constant("1"))}
	requests := 0
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: func(w http.ResponseWriter, r *http.Request) {
		requests++
		if requests > 1 {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		fake.ServeHTTP(w, r)
	}}, PrometheusConfig{})
	var errs int
	for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon().Add(time.Hour), Step: time.Minute}) {
		assertAdvice(t, err, "is failing")
		errs++
	}
	assert.Equal(t, []int{1, 2}, []int{errs, requests})
}

func TestHistoryEndsAfterBreak(t *testing.T) {
	fake := &fakePrometheus{cpu: eachStep(t, webLabels, constant("1")), memory: eachStep(t, webLabels, constant("1"))}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: fake.ServeHTTP}, PrometheusConfig{})
	for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon().Add(time.Hour), Step: time.Minute}) {
		require.NoError(t, err)
		break
	}
	assert.Len(t, fake.forms, 2)
}

func TestHistoryErrorShowsWhatHelps(t *testing.T) {
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentJSON)
		for range maxResponse/1024 + 1 {
			_, _ = w.Write(make([]byte, 1024))
		}
	}
	failure := func(status int, errorType string) http.HandlerFunc {
		return always(status, contentJSON, fmt.Sprintf(`{"status":"error","errorType":%q,"error":"no"}`, errorType))
	}
	for name, test := range map[string]struct {
		handler                 http.HandlerFunc
		isPermanent, isTooLarge bool
		advice                  string
	}{
		"huge response":     {huge, true, true, "returns too much usage"},
		"unauthorized":      {always(http.StatusUnauthorized, "text/plain", "no"), true, false, "rejects the request"},
		"forbidden":         {always(http.StatusForbidden, "text/plain", "no"), true, false, "rejects the request"},
		"bad query":         {failure(http.StatusBadRequest, "bad_data"), true, false, "refuses the query"},
		"too many samples":  {failure(http.StatusUnprocessableEntity, "execution"), true, true, "refuses the query"},
		"query timeout":     {failure(http.StatusServiceUnavailable, "timeout"), false, true, "is failing"},
		"unavailable":       {always(http.StatusServiceUnavailable, "text/plain", "no"), false, false, "is failing"},
		"too many requests": {always(http.StatusTooManyRequests, "text/plain", "no"), false, false, "gets too many requests"},
	} {
		t.Run(name, func(t *testing.T) {
			prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: test.handler}, PrometheusConfig{})
			for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
				assertAdvice(t, err, test.advice)
				explained, ok := errors.AsType[*Error](err)
				require.True(t, ok)
				assert.Equal(t, test.isPermanent, explained.IsPermanent, "permanent")
				assert.Equal(t, test.isTooLarge, explained.IsTooLarge, "too large")
			}
		})
	}
}

func TestWarningsAreLoggedOnce(t *testing.T) {
	const response = `{"status":"success","warnings":["a store does not answer"],"data":{"resultType":%q,"result":[]}}`
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{
		rangePath:   always(http.StatusOK, contentJSON, fmt.Sprintf(response, "matrix")),
		instantPath: always(http.StatusOK, contentJSON, fmt.Sprintf(response, "vector")),
	}, PrometheusConfig{})
	var logged []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	for range 2 {
		_, err := prometheus.Read(ctx)
		require.NoError(t, err)
		for _, err := range prometheus.History(ctx, "team-a", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
			require.NoError(t, err)
		}
	}
	require.Len(t, logged, 1)
	assert.Contains(t, logged[0], "a store does not answer")
}

func TestHistoryRejectsResultOfAnotherType(t *testing.T) {
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{
		rangePath: always(http.StatusOK, contentJSON, `{"status":"success","data":{"resultType":"vector","result":[]}}`)}, PrometheusConfig{})
	errs := 0
	for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
		assertAdvice(t, err, "unexpected response")
		errs++
	}
	assert.Equal(t, 1, errs)
}

func TestHistoryWithInvalidRangeSendsNoQuery(t *testing.T) {
	prometheus, err := NewPrometheus(PrometheusConfig{URL: "http://127.0.0.1:1"})
	require.NoError(t, err)
	for _, step := range []time.Duration{0, -time.Minute, time.Microsecond} {
		errs := 0
		for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon(), Step: step}) {
			assertAdvice(t, err, "needs a step")
			errs++
		}
		assert.Equal(t, 1, errs)
	}
	for _, err := range prometheus.History(t.Context(), "team-a", ".*", Range{From: noon(), To: noon().Add(-1), Step: time.Minute}) {
		assert.Fail(t, "unexpected sample of an empty range", "%v", err)
	}
}

func TestHistoryReturnsContextCanceled(t *testing.T) {
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{rangePath: never}, PrometheusConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := 0
	for _, err := range prometheus.History(ctx, "team-a", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
		assertCanceled(t, err)
		errs++
	}
	assert.Equal(t, 1, errs)
}
