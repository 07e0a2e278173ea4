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
	asJSON      = "application/json"

	webLabels   = `{"namespace":"shop","pod":"web-0","container":"web"}`
	proxyLabels = `{"namespace":"shop","pod":"web-0","container":"proxy"}`
)

// fakePrometheus answers a query by the first key that it contains, as Prometheus does, and
// keeps the forms it was sent.
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
	always(http.StatusOK, asJSON, fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":[%s]}}`,
		resultType, result(form)))(w, r)
}

// saying returns a result that is the same for every form.
func saying(parts ...string) func(map[string]string) string {
	return func(map[string]string) string { return strings.Join(parts, ",") }
}

// value returns one element of a vector.
func value(labels, value string) string {
	return fmt.Sprintf(`{"metric":%s,"value":[1772366400.5,%q]}`, labels, value)
}

func prometheusAt(t testing.TB, handlers map[string]http.HandlerFunc, config PrometheusConfig) *Prometheus {
	t.Helper()
	config.URL = answering(t, handlers)
	prometheus, err := NewPrometheus(config)
	require.NoError(t, err)
	return prometheus
}

func TestPrometheusReadsEveryContainerAtTheTimeOfItsScrape(t *testing.T) {
	fake := &fakePrometheus{
		cpu:     saying(value(webLabels, "0.25"), value(proxyLabels, "2")),
		memory:  saying(value(proxyLabels, "1048576"), value(webLabels, "5.24288e+07")),
		scraped: saying(value(webLabels, "1772366399.123"), value(proxyLabels, "1772366385")),
	}
	samples, err := prometheusAt(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
	require.NoError(t, err)
	for i := range samples {
		samples[i].Time = samples[i].Time.UTC()
	}
	pod := types.NamespacedName{Namespace: "shop", Name: "web-0"}
	assert.Equal(t, []Sample{
		{Pod: pod, Container: "web", Time: noon().Add(-877 * time.Millisecond), CPU: 0.25, Memory: 52428800, Window: DefaultWindow},
		{Pod: pod, Container: "proxy", Time: noon().Add(-15 * time.Second), CPU: 2, Memory: 1 << 20, Window: DefaultWindow},
	}, samples)
}

func TestPrometheusIsAskedForContainersOnlyAndAllAtOneTimeOfItsClock(t *testing.T) {
	fake := &fakePrometheus{cpu: saying(value(webLabels, "1")), memory: saying(), scraped: saying()}
	prometheus := prometheusAt(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP},
		PrometheusConfig{Window: 90 * time.Second, Namespaces: []string{"shop", "bank"}})
	samples, err := prometheus.Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, samples, "a container must be in all three answers")

	const matchers = `{container!="",container!="POD",namespace=~"shop|bank"}`
	const seconds = "container_cpu_usage_seconds_total" + matchers
	const at = "1772366400.5"
	assert.Equal(t, []map[string]string{
		{"query": "max by (namespace, pod, container) (rate(" + seconds + "[1m30s]) and " + seconds + ")" +
			" unless group by (namespace, pod, container) (" + seconds + " unless " + seconds + " offset 1m30s)"},
		{"query": "max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes" + matchers + "[1m30s]))", "time": at},
		{"query": "max by (namespace, pod, container) (timestamp(container_memory_working_set_bytes" + matchers + "))", "time": at},
	}, fake.forms)
}

func TestPrometheusThatKnowsNoContainerGivesNoSamples(t *testing.T) {
	fake := &fakePrometheus{cpu: saying()}
	samples, err := prometheusAt(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, samples)
	assert.Len(t, fake.forms, 1)
}

func TestPrometheusPassesOnWhatIsNoAmountAsUnusable(t *testing.T) {
	for _, c := range []struct{ cpu, memory string }{
		{"NaN", "1"}, {"+Inf", "1"}, {"-0.5", "1"}, {"1", "NaN"}, {"1", "-1"}, {"1", "+Inf"}, {"1", "1e30"},
	} {
		fake := &fakePrometheus{
			cpu: saying(value(webLabels, c.cpu)), memory: saying(value(webLabels, c.memory)), scraped: saying(value(webLabels, "1772366400")),
		}
		samples, err := prometheusAt(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
		require.NoError(t, err)
		require.Len(t, samples, 1)
		assert.False(t, samples[0].Usable(), "%v: %v", c, samples[0])
	}
}

func TestPrometheusSamplesWithoutATimeAreDroppedByTheFilter(t *testing.T) {
	for _, seconds := range []string{"NaN", "-Inf", "+Inf", "-1"} {
		fake := &fakePrometheus{
			cpu: saying(value(webLabels, "1")), memory: saying(value(webLabels, "1")), scraped: saying(value(webLabels, seconds)),
		}
		samples, err := prometheusAt(t, map[string]http.HandlerFunc{instantPath: fake.ServeHTTP}, PrometheusConfig{}).Read(t.Context())
		require.NoError(t, err)
		fresh, dropped := NewFilter(maxAge).Fresh(samples, noon())
		assert.Empty(t, fresh, seconds)
		assert.Equal(t, 1, dropped.Stale+dropped.Unusable, seconds)
	}
}

func TestPrometheusSaysWhichURLAndWhatToDoAboutEachFailure(t *testing.T) {
	cases := map[string]struct {
		answer      http.HandlerFunc
		unavailable bool
		advice      string
	}{
		"not Prometheus":     {http.NotFound, true, "check that --prometheus-url is its address"},
		"wants a password":   {always(http.StatusUnauthorized, "text/plain", "Unauthorized\n"), true, "its API may be read"},
		"starts":             {always(http.StatusServiceUnavailable, "text/plain", "Service Unavailable"), true, "/-/ready"},
		"does not answer":    {never, true, "does not answer in time"},
		"is a proxy's page":  {always(http.StatusOK, "text/html", "<html>"), true, "something other than its API"},
		"is cut off":         {always(http.StatusOK, asJSON, `{"status":"success","data":{"resultType":"vec`), true, "something other than its API"},
		"has no such values": {always(http.StatusOK, asJSON, `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"x"]}]}}`), true, "something other"},
		"is of another type": {always(http.StatusOK, asJSON, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`), true, "something other"},
		"took too long over the query": {
			always(http.StatusServiceUnavailable, asJSON, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`),
			true, "/-/ready"},
		"has too many samples": {
			always(http.StatusUnprocessableEntity, asJSON, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`),
			false, "--query.max-samples"},
		"cannot parse the query": {
			always(http.StatusBadRequest, asJSON, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}`),
			false, "refuses the query"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			prometheus := prometheusAt(t, map[string]http.HandlerFunc{instantPath: c.answer, rangePath: c.answer}, PrometheusConfig{})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			samples, err := prometheus.Read(ctx)
			assert.Empty(t, samples)
			assertError(t, err, c.unavailable, "Prometheus at "+prometheus.address)
			assertError(t, err, c.unavailable, c.advice)

			if name == "is of another type" {
				return
			}
			for _, err := range prometheus.History(ctx, "n", ".*", Range{From: noon(), To: noon(), Step: time.Minute}) {
				assertError(t, err, c.unavailable, "Prometheus at "+prometheus.address)
			}
		})
	}
}

func TestPrometheusThatIsNotThereIsUnavailableAndItsPasswordStaysSecret(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	prometheus, err := NewPrometheus(PrometheusConfig{URL: strings.Replace(server.URL, "://", "://upright:secret@", 1)})
	require.NoError(t, err)
	_, err = prometheus.Read(t.Context())
	assertError(t, err, true, "cannot be reached, check --prometheus-url")
	assert.NotContains(t, err.Error(), "secret")
}

func TestPrometheusReturnsACancellationAsThat(t *testing.T) {
	prometheus := prometheusAt(t, map[string]http.HandlerFunc{instantPath: never}, PrometheusConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := prometheus.Read(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrUnavailable)
}

func TestPrometheusIsRefusedAURLThatIsNone(t *testing.T) {
	for _, address := range []string{"", "prometheus:9090", "ftp://prometheus", "http://", "http://a b", ":"} {
		_, err := NewPrometheus(PrometheusConfig{URL: address})
		assert.ErrorContains(t, err, "Prometheus URL", address)
	}
}

func TestAnAmountThatFitsNoIntegerIsNegative(t *testing.T) {
	for _, bytes := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxInt64} {
		sample := newSample(container{}, 0, 0, bytes, 0)
		assert.Equal(t, int64(-1), sample.Memory, bytes)
	}
}
