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
	everywhere = "/apis/metrics.k8s.io/v1beta1/pods"
	// onePod is what metrics-server answers with.
	onePod = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
		{"metadata":{"name":"web-6d4cf56db6-x2k9p","namespace":"shop","creationTimestamp":"2026-03-01T12:00:20Z",
			"labels":{"app":"web","pod-template-hash":"6d4cf56db6"}},
		"timestamp":"2026-03-01T12:00:08Z","window":"15.024s","containers":[
			{"name":"web","usage":{"cpu":"12345678n","memory":"51234Ki"}},
			{"name":"proxy","usage":{"cpu":"2","memory":"1Gi"}}]}]}`
)

// answering returns an address at which each path has its handler, and others are not found.
func answering(t testing.TB, handlers map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.HandleFunc(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// always answers with the status, type and body.
func always(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// never answers, but ends when the client has gone, which a server notices once it has read
// the request's body.
func never(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// inProtobuf returns the object in the protobuf form of Kubernetes.
func inProtobuf(t testing.TB, object runtime.Object) string {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, metricsv1beta1.AddToScheme(scheme))
	var buffer bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(scheme, scheme).Encode(object, &buffer))
	return buffer.String()
}

func decoded(t testing.TB, body string) *metricsv1beta1.PodMetricsList {
	t.Helper()
	list := &metricsv1beta1.PodMetricsList{}
	require.NoError(t, json.Unmarshal([]byte(body), list))
	return list
}

func metricsAPI(t testing.TB, handlers map[string]http.HandlerFunc, namespaces ...string) *MetricsAPI {
	t.Helper()
	source, err := NewMetricsAPI(&rest.Config{Host: answering(t, handlers)}, http.DefaultClient, namespaces...)
	require.NoError(t, err)
	return source
}

func TestMetricsAPIReadsEveryContainerFromProtobufAndFromJSON(t *testing.T) {
	pod := types.NamespacedName{Namespace: "shop", Name: "web-6d4cf56db6-x2k9p"}
	at := time.Date(2026, time.March, 1, 12, 0, 8, 0, time.UTC)
	window := 15024 * time.Millisecond

	for contentType, body := range map[string]string{
		runtime.ContentTypeProtobuf: inProtobuf(t, decoded(t, onePod)),
		runtime.ContentTypeJSON:     onePod,
	} {
		t.Run(contentType, func(t *testing.T) {
			source := metricsAPI(t, map[string]http.HandlerFunc{everywhere: always(http.StatusOK, contentType, body)})
			samples, err := source.Read(t.Context())
			require.NoError(t, err)
			for i := range samples {
				samples[i].Time = samples[i].Time.UTC()
			}
			assert.Equal(t, []Sample{
				{Pod: pod, Container: "web", Time: at, CPU: 0.012345678, Memory: 51234 * 1024, Window: window},
				{Pod: pod, Container: "proxy", Time: at, CPU: 2, Memory: 1 << 30, Window: window},
			}, samples)
		})
	}
}

func TestMetricsAPIAsksForProtobufFirst(t *testing.T) {
	var accept string
	source := metricsAPI(t, map[string]http.HandlerFunc{everywhere: func(w http.ResponseWriter, r *http.Request) {
		accept = r.Header.Get("Accept")
		always(http.StatusOK, runtime.ContentTypeJSON, onePod)(w, r)
	}})
	_, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "application/vnd.kubernetes.protobuf,application/json", accept)
}

func TestMetricsAPIReadsOnlyTheGivenNamespaces(t *testing.T) {
	ok := always(http.StatusOK, runtime.ContentTypeJSON, onePod)
	source := metricsAPI(t, map[string]http.HandlerFunc{
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods": ok,
		"/apis/metrics.k8s.io/v1beta1/namespaces/bank/pods": ok,
	}, "shop", "bank")
	samples, err := source.Read(t.Context())
	require.NoError(t, err)
	assert.Len(t, samples, 4)
}

func TestMetricsAPIPassesOnMissingAndNegativeUsageAsUnusable(t *testing.T) {
	const body = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
		{"metadata":{"name":"a","namespace":"n"},"timestamp":"2026-03-01T12:00:08Z","window":"15s","containers":[
			{"name":"silent","usage":null},{"name":"no-cpu","usage":{"memory":"1Gi"}},
			{"name":"no-memory","usage":{"cpu":"1"}},{"name":"negative","usage":{"cpu":"-1","memory":"1"}}]},
		{"metadata":{"name":"b","namespace":"n"},"timestamp":null,"window":"0s","containers":null}]}`
	for contentType, body := range map[string]string{
		runtime.ContentTypeProtobuf: inProtobuf(t, decoded(t, body)),
		runtime.ContentTypeJSON:     body,
	} {
		t.Run(contentType, func(t *testing.T) {
			source := metricsAPI(t, map[string]http.HandlerFunc{everywhere: always(http.StatusOK, contentType, body)})
			samples, err := source.Read(t.Context())
			require.NoError(t, err)
			require.Len(t, samples, 4)
			for i := range samples {
				assert.False(t, samples[i].Usable(), samples[i].Container)
			}
		})
	}
}

func TestMetricsAPISaysWhatToDoAboutEachFailure(t *testing.T) {
	failure := func(code int, reason, message string) http.HandlerFunc {
		return always(code, runtime.ContentTypeJSON, fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code))
	}
	cases := map[string]struct {
		answer      http.HandlerFunc
		unavailable bool
		advice      string
	}{
		"absent, as an API server without the APIService says it": {
			always(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n"), true, "install metrics-server"},
		"an APIService without endpoints": {
			always(http.StatusServiceUnavailable, "text/plain; charset=utf-8", "service unavailable\n"), true, "kubectl describe apiservice"},
		"metrics-server that fails": {
			failure(http.StatusInternalServerError, "InternalError", "boom"), true, "kubectl describe apiservice"},
		"metrics-server that does not answer": {never, true, "kubectl describe apiservice"},
		"no permission": {
			failure(http.StatusForbidden, "Forbidden", "pods.metrics.k8s.io is forbidden"), false, "allow the manager to list pods"},
		"garbage in JSON":       {always(http.StatusOK, runtime.ContentTypeJSON, `{"kind":"PodMe`), true, "something other than PodMetrics"},
		"no quantity in JSON":   {always(http.StatusOK, runtime.ContentTypeJSON, `{"items":[{"containers":[{"usage":{"cpu":"lots"}}]}]}`), true, "something other"},
		"a page of a proxy":     {always(http.StatusOK, "text/html", "<html>"), true, "something other than PodMetrics"},
		"garbage in protobuf":   {always(http.StatusOK, runtime.ContentTypeProtobuf, "k8s\x00\xff\xff"), true, "something other than PodMetrics"},
		"no prefix in protobuf": {always(http.StatusOK, runtime.ContentTypeProtobuf, "garbage"), true, "something other than PodMetrics"},
		"another kind": {
			always(http.StatusOK, runtime.ContentTypeProtobuf, inProtobuf(t, &metricsv1beta1.NodeMetricsList{})), true, "something other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			source := metricsAPI(t, map[string]http.HandlerFunc{everywhere: c.answer})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			samples, err := source.Read(ctx)
			assert.Empty(t, samples)
			assertError(t, err, c.unavailable, c.advice)
		})
	}
}

// assertError asserts that the error advises so.
func assertError(t *testing.T, err error, unavailable bool, advice string) {
	t.Helper()
	var explained *Error
	require.ErrorAs(t, err, &explained)
	assert.Contains(t, explained.Advice, advice)
	assert.Contains(t, err.Error(), explained.Advice)
	if unavailable {
		assert.ErrorIs(t, err, ErrUnavailable)
	} else {
		assert.NotErrorIs(t, err, ErrUnavailable)
	}
}

func TestMetricsAPIDoesNotBlameTheMetricsAPIForAnAbsentAPIServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	source, err := NewMetricsAPI(&rest.Config{Host: server.URL}, http.DefaultClient)
	require.NoError(t, err)
	_, err = source.Read(t.Context())
	assertError(t, err, false, "check the connection to the API server")
}

func TestMetricsAPIReturnsACancellationAsThat(t *testing.T) {
	source := metricsAPI(t, map[string]http.HandlerFunc{everywhere: never})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := source.Read(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrUnavailable)
}

func TestMetricsAPIIsRefusedAConfigurationThatIsNone(t *testing.T) {
	_, err := NewMetricsAPI(&rest.Config{Host: "://"}, http.DefaultClient)
	assert.Error(t, err)
}

func FuzzProtobufAnswerNeverPanics(f *testing.F) {
	body := inProtobuf(f, podMetrics(3))
	f.Add([]byte(body))
	f.Add([]byte(body[:len(body)/2]))
	f.Fuzz(func(t *testing.T, body []byte) {
		samples, err := appendProtobuf(nil, body)
		if err != nil {
			assert.Empty(t, samples)
		}
	})
}

// podMetrics returns what metrics-server says of so many pods of one container.
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
