package usage

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

const (
	instantPath = "/api/v1/query"
	rangePath   = "/api/v1/query_range"
	contentJSON = "application/json"

	webLabels   = `{"namespace":"team-a","pod":"web-0","container":"web"}`
	proxyLabels = `{"namespace":"team-a","pod":"web-0","container":"proxy"}`
)

// fakePrometheus responds to a query like Prometheus. The metric or function in the query selects
// the result. It keeps the forms of all requests.
type fakePrometheus struct {
	cpu, memory, scraped func(form map[string]string) string // the results in JSON

	mutex sync.Mutex
	forms []map[string]string
}

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form := map[string]string{}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for name := range r.PostForm {
		form[name] = r.PostForm.Get(name)
	}
	f.mutex.Lock()
	f.forms = append(f.forms, form)
	f.mutex.Unlock()

	result, resultType := f.scraped, "vector"
	switch {
	case strings.Contains(form["query"], "container_cpu_usage_seconds_total"):
		result = f.cpu
	case strings.Contains(form["query"], "max_over_time"):
		result = f.memory
	}
	if r.URL.Path == rangePath {
		resultType = "matrix"
	}
	always(http.StatusOK, contentJSON, fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":[%s]}}`,
		resultType, result(form)))(w, r)
}

// constantResult returns a function that returns the same result for every form.
func constantResult(parts ...string) func(map[string]string) string {
	return func(map[string]string) string { return strings.Join(parts, ",") }
}

// vectorElement returns one element of a vector.
func vectorElement(labels, value string) string {
	return fmt.Sprintf(`{"metric":%s,"value":[1772366400.5,%q]}`, labels, value)
}

func newPrometheus(t testing.TB, handlers map[string]http.HandlerFunc, config PrometheusConfig) *Prometheus {
	t.Helper()
	config.URL = startServer(t, handlers)
	prometheus, err := NewPrometheus(config)
	require.NoError(t, err)
	return prometheus
}

func TestPrometheusReadsEveryContainerAtTimeOfItsScrape(t *testing.T) {
	fake := &fakePrometheus{
		cpu:     constantResult(vectorElement(webLabels, "0.25"), vectorElement(proxyLabels, "2")),
		memory:  constantResult(vectorElement(proxyLabels, "1048576"), vectorElement(webLabels, "5.24288e+07")),
		scraped: constantResult(vectorElement(webLabels, "1772366399.123"), vectorElement(proxyLabels, "1772366385")),
	}
	samples, err := newPrometheus(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
	require.NoError(t, err)
	for i := range samples {
		samples[i].Time = samples[i].Time.UTC()
	}
	pod := types.NamespacedName{Namespace: "team-a", Name: "web-0"}
	assert.Equal(t, []Sample{
		{Pod: pod, Container: "web", Time: noon().Add(-877 * time.Millisecond), CPU: 0.25, Memory: 52428800},
		{Pod: pod, Container: "proxy", Time: noon().Add(-15 * time.Second), CPU: 2, Memory: 1 << 20},
	}, samples)
}

func TestPrometheusQueriesOnlyContainersAtOneTime(t *testing.T) {
	fake := &fakePrometheus{cpu: constantResult(vectorElement(webLabels, "1")), memory: constantResult(), scraped: constantResult()}
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP},
		PrometheusConfig{Window: 90 * time.Second, Namespaces: []string{"team-a", "team-b"}})
	samples, err := prometheus.Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, samples, "a container must be in all three results")

	const matchers = `{container!="",container!="POD",namespace=~"team-a|team-b"}`
	const seconds = "container_cpu_usage_seconds_total" + matchers
	const at = "1772366400.5"
	assert.Equal(t, []map[string]string{
		{"query": "max by (namespace, pod, container) (rate(" + seconds + "[1m30s]) and " + seconds + ")" +
			" unless group by (namespace, pod, container) (" + seconds + " unless " + seconds + " offset 1m30s)"},
		{"query": "max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes" + matchers + "[1m30s]))", "time": at},
		{"query": "max by (namespace, pod, container) (timestamp(container_memory_working_set_bytes" + matchers + "))", "time": at},
	}, fake.forms)
}

func TestPrometheusWithoutContainersReturnsNoSamples(t *testing.T) {
	fake := &fakePrometheus{cpu: constantResult()}
	samples, err := newPrometheus(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, samples)
	assert.Len(t, fake.forms, 1)
}

func TestPrometheusReturnsInvalidAmountsAsUnusable(t *testing.T) {
	for _, c := range []struct{ cpu, memory string }{
		{"NaN", "1"}, {"+Inf", "1"}, {"-0.5", "1"}, {"1", "NaN"}, {"1", "-1"}, {"1", "+Inf"}, {"1", "1e30"},
	} {
		fake := &fakePrometheus{
			cpu: constantResult(vectorElement(webLabels, c.cpu)), memory: constantResult(vectorElement(webLabels, c.memory)), scraped: constantResult(vectorElement(webLabels, "1772366400")),
		}
		samples, err := newPrometheus(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
		require.NoError(t, err)
		require.Len(t, samples, 1)
		assert.False(t, samples[0].Usable(), "%v: %v", c, samples[0])
	}
}

func TestFilterDropsPrometheusSamplesWithoutTime(t *testing.T) {
	for _, seconds := range []string{"NaN", "-Inf", "+Inf", "-1"} {
		fake := &fakePrometheus{
			cpu: constantResult(vectorElement(webLabels, "1")), memory: constantResult(vectorElement(webLabels, "1")), scraped: constantResult(vectorElement(webLabels, seconds)),
		}
		samples, err := newPrometheus(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
		require.NoError(t, err)
		fresh, dropped := NewFilter(maxAge).Fresh(samples, noon())
		assert.Empty(t, fresh, seconds)
		assert.Equal(t, 1, dropped.Stale+dropped.Unusable, seconds)
	}
}

func TestPrometheusAdvisesOnEachFailureWithURL(t *testing.T) {
	cases := map[string]struct {
		handler http.HandlerFunc
		advice  string
	}{
		"not Prometheus":       {http.NotFound, "check that --prometheus-url is its address"},
		"password required":    {always(http.StatusUnauthorized, "text/plain", "Unauthorized\n"), "the manager may read its API"},
		"starting":             {always(http.StatusServiceUnavailable, "text/plain", "Service Unavailable"), "/-/ready"},
		"HTML page of a proxy": {always(http.StatusOK, "text/html", "<html>"), "unexpected response"},
		"truncated":            {always(http.StatusOK, contentJSON, `{"status":"success","data":{"resultType":"vec`), "unexpected response"},
		"invalid value":        {always(http.StatusOK, contentJSON, `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"x"]}]}}`), "unexpected response"},
		"another result type":  {always(http.StatusOK, contentJSON, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`), "unexpected response"},
		"query timeout": {
			always(http.StatusServiceUnavailable, contentJSON, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`),
			"/-/ready"},
		"too many samples": {
			always(http.StatusUnprocessableEntity, contentJSON, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`),
			"refuses the query, see its limits (--query.max-samples)"},
		"invalid query": {
			always(http.StatusBadRequest, contentJSON, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}`),
			"refuses the query"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			prometheus := newPrometheus(t, map[string]http.HandlerFunc{instantPath: c.handler, rangePath: c.handler}, PrometheusConfig{})
			assertPrometheusAdvises(t.Context(), t, prometheus, c.advice)
		})
	}
}

func TestPrometheusAdvisesOnTimeout(t *testing.T) {
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{instantPath: never, rangePath: never}, PrometheusConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	assertPrometheusAdvises(ctx, t, prometheus, "does not answer in time")
}

// assertPrometheusAdvises asserts that Read and History fail with the advice and the address of
// Prometheus.
func assertPrometheusAdvises(ctx context.Context, t *testing.T, prometheus *Prometheus, advice string) {
	t.Helper()
	samples, err := prometheus.Read(ctx)
	assert.Empty(t, samples)
	assertAdvice(t, err, "Prometheus at "+prometheus.address)
	assertAdvice(t, err, advice)

	errs := 0
	for _, err := range prometheus.History(ctx, "n", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
		assertAdvice(t, err, "Prometheus at "+prometheus.address)
		assertAdvice(t, err, advice)
		errs++
	}
	assert.Equal(t, 1, errs)
}

func TestUnreachablePrometheusKeepsPasswordSecret(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	prometheus, err := NewPrometheus(PrometheusConfig{URL: strings.Replace(server.URL, "://", "://upright:secret@", 1)})
	require.NoError(t, err)
	_, err = prometheus.Read(t.Context())
	assertAdvice(t, err, "cannot be reached, check --prometheus-url")
	assert.NotContains(t, err.Error(), "secret")
}

func TestPrometheusReturnsContextCanceled(t *testing.T) {
	prometheus := newPrometheus(t, map[string]http.HandlerFunc{instantPath: never}, PrometheusConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := prometheus.Read(ctx)
	assertCanceled(t, err)
}

func TestNewPrometheusRejectsInvalidURL(t *testing.T) {
	for _, address := range []string{"", "prometheus:9090", "ftp://prometheus", "http://", "http://a b", ":"} {
		_, err := NewPrometheus(PrometheusConfig{URL: address})
		assert.ErrorContains(t, err, "Prometheus URL", address)
	}
}

func TestInvalidURLDoesNotShowThePassword(t *testing.T) {
	for _, address := range []string{
		"http://user:secret@prometheus:port", "http://user:secret%zz@prometheus:9090", "http://user:secret#1@prometheus:9090",
		"http://user:secret\n@prometheus:9090", "user:secret@prometheus:9090", "//user:secret@prometheus:9090", "http://user:secret/1@prometheus",
	} {
		_, err := NewPrometheus(PrometheusConfig{URL: address})
		require.ErrorContains(t, err, "Prometheus URL", address)
		assert.NotContains(t, err.Error(), "secret", address)
	}
}

func TestMemoryThatDoesNotFitInt64IsNegative(t *testing.T) {
	for _, bytes := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxInt64} {
		sample := newSample(container{}, 0, 0, bytes)
		assert.Equal(t, int64(-1), sample.Memory, bytes)
	}
}
