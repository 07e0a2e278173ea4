package usage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

const (
	// podMetricsPath is the path of the PodMetrics of all namespaces.
	podMetricsPath = "/apis/metrics.k8s.io/v1beta1/pods"
	// onePod is a response of metrics-server.
	onePod = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
		{"metadata":{"name":"web-6d4cf56db6-x2k9p","namespace":"team-a","creationTimestamp":"2026-03-01T12:00:20Z",
			"labels":{"app":"web","pod-template-hash":"6d4cf56db6"}},
		"timestamp":"2026-03-01T12:00:08Z","window":"15.024s","containers":[
			{"name":"web","usage":{"cpu":"12345678n","memory":"51234Ki"}},
			{"name":"proxy","usage":{"cpu":"2","memory":"1Gi"}}]}]}`
)

// startServer returns the address of a server with a handler for each path. Other paths are not
// found.
func startServer(t testing.TB, handlers map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.HandleFunc(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// always responds with the status, content type, and body.
func always(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// never does not respond. It returns when the client disconnects. The server detects that only after
// it has read the body of the request.
func never(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// encodeProtobuf returns the object in the protobuf encoding of Kubernetes.
func encodeProtobuf(t testing.TB, object runtime.Object) string {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, metricsv1beta1.AddToScheme(scheme))
	var buffer bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme, scheme).Encode(object, &buffer))
	return buffer.String()
}

func decodeJSON(t testing.TB, body string) *metricsv1beta1.PodMetricsList {
	t.Helper()
	list := &metricsv1beta1.PodMetricsList{}
	require.NoError(t, json.Unmarshal([]byte(body), list))
	return list
}

func newMetricsAPI(t testing.TB, handlers map[string]http.HandlerFunc, namespaces ...string) *MetricsAPI {
	t.Helper()
	source, err := NewMetricsAPI(&rest.Config{Host: startServer(t, handlers)}, http.DefaultClient, namespaces...)
	require.NoError(t, err)
	return source
}

func TestMetricsAPIReadsEveryContainerFromProtobufAndJSON(t *testing.T) {
	pod := types.NamespacedName{Namespace: "team-a", Name: "web-6d4cf56db6-x2k9p"}
	at := time.Date(2026, time.March, 1, 12, 0, 8, 0, time.UTC)

	for contentType, body := range map[string]string{
		runtime.ContentTypeProtobuf: encodeProtobuf(t, decodeJSON(t, onePod)),
		runtime.ContentTypeJSON:     onePod,
	} {
		t.Run(contentType, func(t *testing.T) {
			source := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: always(http.StatusOK, contentType, body)})
			samples, err := source.Read(t.Context())
			require.NoError(t, err)
			for i := range samples {
				samples[i].Time = samples[i].Time.UTC()
			}
			assert.Equal(t, []Sample{
				{Pod: pod, Container: "web", Time: at, CPU: 0.012345678, Memory: 51234 * 1024},
				{Pod: pod, Container: "proxy", Time: at, CPU: 2, Memory: 1 << 30},
			}, samples)
		})
	}
}

func TestMetricsAPIPrefersProtobuf(t *testing.T) {
	var accept string
	source := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: func(w http.ResponseWriter, r *http.Request) {
		accept = r.Header.Get("Accept")
		always(http.StatusOK, runtime.ContentTypeJSON, onePod)(w, r)
	}})
	_, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "application/vnd.kubernetes.protobuf,application/json", accept)
}

func TestMetricsAPIReadsOnlyTheGivenNamespaces(t *testing.T) {
	ok := always(http.StatusOK, runtime.ContentTypeJSON, onePod)
	source := newMetricsAPI(t, map[string]http.HandlerFunc{
		"/apis/metrics.k8s.io/v1beta1/namespaces/team-a/pods": ok,
		"/apis/metrics.k8s.io/v1beta1/namespaces/team-b/pods": ok,
	}, "team-a", "team-b")
	samples, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Len(t, samples, 4)
}

func TestMetricsAPIReturnsMissingAndNegativeUsageAsUnusable(t *testing.T) {
	const body = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
		{"metadata":{"name":"a","namespace":"n"},"timestamp":"2026-03-01T12:00:08Z","window":"15s","containers":[
			{"name":"no-usage","usage":null},{"name":"no-cpu","usage":{"memory":"1Gi"}},
			{"name":"no-memory","usage":{"cpu":"1"}},{"name":"negative","usage":{"cpu":"-1","memory":"1"}}]},
		{"metadata":{"name":"b","namespace":"n"},"timestamp":null,"window":"0s","containers":null}]}`
	for contentType, body := range map[string]string{
		runtime.ContentTypeProtobuf: encodeProtobuf(t, decodeJSON(t, body)),
		runtime.ContentTypeJSON:     body,
	} {
		t.Run(contentType, func(t *testing.T) {
			source := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: always(http.StatusOK, contentType, body)})
			samples, err := source.Read(t.Context())
			require.NoError(t, err)
			require.Len(t, samples, 4)
			for i := range samples {
				assert.False(t, samples[i].Usable(), samples[i].Container)
			}
		})
	}
}

func TestMetricsAPIAdvisesOnEachFailure(t *testing.T) {
	failure := func(code int, reason, message string) http.HandlerFunc {
		return always(code, runtime.ContentTypeJSON, fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code))
	}
	cases := map[string]struct {
		handler http.HandlerFunc
		advice  string
	}{
		"API server without the APIService": {
			always(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n"), "install metrics-server"},
		"APIService without endpoints": {
			always(http.StatusServiceUnavailable, "text/plain; charset=utf-8", "service unavailable\n"), "does not answer, see why: kubectl describe apiservice"},
		"metrics-server fails": {
			failure(http.StatusInternalServerError, "InternalError", "boom"), "does not answer, see why: kubectl describe apiservice"},
		"no permission": {
			failure(http.StatusForbidden, "Forbidden", "pods.metrics.k8s.io is forbidden"), "allow it to list pods"},
		"truncated JSON":           {always(http.StatusOK, runtime.ContentTypeJSON, `{"kind":"PodMe`), "something other than PodMetrics"},
		"invalid quantity in JSON": {always(http.StatusOK, runtime.ContentTypeJSON, `{"items":[{"containers":[{"usage":{"cpu":"lots"}}]}]}`), "something other than PodMetrics"},
		"HTML page of a proxy":     {always(http.StatusOK, "text/html", "<html>"), "something other than PodMetrics"},
		"invalid protobuf":         {always(http.StatusOK, runtime.ContentTypeProtobuf, "k8s\x00\xff\xff"), "something other than PodMetrics"},
		"protobuf without prefix":  {always(http.StatusOK, runtime.ContentTypeProtobuf, "garbage"), "something other than PodMetrics"},
		"another kind": {
			always(http.StatusOK, runtime.ContentTypeProtobuf, encodeProtobuf(t, &metricsv1beta1.NodeMetricsList{})), "something other than PodMetrics"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			samples, err := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: c.handler}).Read(t.Context())
			assert.Empty(t, samples)
			assertAdvice(t, err, c.advice)
		})
	}
}

func TestMetricsAPIAdvisesOnTimeout(t *testing.T) {
	source := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: never})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	samples, err := source.Read(ctx)
	assert.Empty(t, samples)
	assertAdvice(t, err, "does not answer, see why: kubectl describe apiservice")
}

// assertAdvice asserts that the error is an Error with the given advice.
func assertAdvice(t *testing.T, err error, advice string) {
	t.Helper()
	var explained *Error
	require.ErrorAs(t, err, &explained)
	assert.Contains(t, explained.Advice, advice)
	assert.Contains(t, err.Error(), explained.Advice)
}

// assertCanceled asserts that the error is a cancellation without advice.
func assertCanceled(t *testing.T, err error) {
	t.Helper()
	var explained *Error
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorAs(t, err, &explained)
}

func TestMetricsAPIAdvisesOnUnreachableAPIServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	source, err := NewMetricsAPI(&rest.Config{Host: server.URL}, http.DefaultClient)
	require.NoError(t, err)
	_, err = source.Read(t.Context())
	assertAdvice(t, err, "the request to the metrics API failed, check the connection to the API server")
}

func TestMetricsAPIReturnsContextCanceled(t *testing.T) {
	source := newMetricsAPI(t, map[string]http.HandlerFunc{podMetricsPath: never})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := source.Read(ctx)
	assertCanceled(t, err)
}

func TestNewMetricsAPIRejectsInvalidConfig(t *testing.T) {
	_, err := NewMetricsAPI(&rest.Config{Host: "://"}, http.DefaultClient)
	assert.Error(t, err)
}

func FuzzProtobufResponseNeverPanics(f *testing.F) {
	body := encodeProtobuf(f, podMetrics(3))
	f.Add([]byte(body))
	f.Add([]byte(body[:len(body)/2]))
	f.Fuzz(func(t *testing.T, body []byte) {
		samples, err := appendProtobuf(nil, body)
		if err != nil {
			assert.Empty(t, samples)
		}
	})
}

// podMetrics returns the response of metrics-server for the given number of pods with one container.
func podMetrics(pods int) *metricsv1beta1.PodMetricsList {
	list := &metricsv1beta1.PodMetricsList{}
	list.SetGroupVersionKind(metricsv1beta1.SchemeGroupVersion.WithKind("PodMetricsList"))
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for i := range pods {
		app := fmt.Sprintf("web-%d", i/2)
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{
				Name:              fmt.Sprintf("%s-6d4cf56db6-x%04d", app, i),
				Namespace:         fmt.Sprintf("team-%d", i%50),
				CreationTimestamp: metav1.NewTime(at),
				Labels: map[string]string{
					"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": app, "pod-template-hash": "6d4cf56db6",
				},
			},
			Timestamp: metav1.NewTime(at),
			Window:    metav1.Duration{Duration: 15 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "web", Usage: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(1234567+i), resource.Nano),
				corev1.ResourceMemory: *resource.NewQuantity(int64(51234+i)<<10, resource.BinarySI),
			}}},
		})
	}
	return list
}
