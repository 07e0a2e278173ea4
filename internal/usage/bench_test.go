package usage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// BenchmarkMetricsAPIRead reads over HTTP. It includes the server, which only writes the response.
func BenchmarkMetricsAPIRead(b *testing.B) {
	for _, pods := range []int{2_000, 20_000} {
		list := podMetrics(pods)
		listJSON, err := json.Marshal(list)
		require.NoError(b, err)
		for contentType, body := range map[string]string{
			runtime.ContentTypeProtobuf: encodeProtobuf(b, list),
			runtime.ContentTypeJSON:     string(listJSON),
		} {
			b.Run(fmt.Sprintf("pods=%d/%s", pods, strings.TrimPrefix(contentType, "application/")), func(b *testing.B) {
				source := newMetricsAPI(b, map[string]http.HandlerFunc{podMetricsPath: always(http.StatusOK, contentType, body)})
				b.ReportAllocs()
				for b.Loop() {
					samples, err := source.Read(b.Context())
					if err != nil || len(samples) != pods {
						b.Fatal(len(samples), err)
					}
				}
			})
		}
	}
}

// BenchmarkDecode20000Pods compares decoding pod by pod with decoding the whole list at once.
func BenchmarkDecode20000Pods(b *testing.B) {
	const pods = 20_000
	body := []byte(encodeProtobuf(b, podMetrics(pods)))
	b.Run("pod by pod", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if samples, err := appendProtobuf(nil, body); err != nil || len(samples) != pods {
				b.Fatal(len(samples), err)
			}
		}
	})
	b.Run("whole list", func(b *testing.B) {
		scheme := runtime.NewScheme()
		require.NoError(b, metricsv1beta1.AddToScheme(scheme))
		serializer := protobuf.NewSerializer(scheme, scheme)
		b.ReportAllocs()
		for b.Loop() {
			var list metricsv1beta1.PodMetricsList
			if _, _, err := serializer.Decode(body, nil, &list); err != nil {
				b.Fatal(err)
			}
			var samples []Sample
			for i := range list.Items {
				samples = appendPod(samples, &list.Items[i])
			}
		}
	})
}

// BenchmarkFilter20000Pods filters the samples of one read twice: all are fresh, then all are seen.
func BenchmarkFilter20000Pods(b *testing.B) {
	const pods = 20_000
	samples, err := appendProtobuf(nil, []byte(encodeProtobuf(b, podMetrics(pods))))
	require.NoError(b, err)
	now := noon()
	filter := NewFilter(maxAge)
	scratch := slices.Clone(samples)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Minute)
		for i := range samples {
			samples[i].Time = now
		}
		for _, want := range []int{pods, 0} {
			copy(scratch, samples)
			if fresh, _ := filter.Fresh(scratch, now); len(fresh) != want {
				b.Fatal(len(fresh))
			}
		}
	}
}

// BenchmarkPrometheusRead20000Pods reads over HTTP. It includes the server, which only writes the
// response.
func BenchmarkPrometheusRead20000Pods(b *testing.B) {
	const pods = 20_000
	elements := make([]string, pods)
	for i := range elements {
		labels := fmt.Sprintf(`{"namespace":"team-%d","pod":"web-%d-6d4cf56db6-x%04d","container":"web"}`, i%50, i/2, i)
		elements[i] = vectorElement(labels, "1772366400")
	}
	handler := always(http.StatusOK, contentJSON, `{"status":"success","data":{"resultType":"vector","result":[`+strings.Join(elements, ",")+`]}}`)
	prometheus := newPrometheus(b, map[string]http.HandlerFunc{instantPath: handler}, PrometheusConfig{})
	b.ReportAllocs()
	for b.Loop() {
		if samples, err := prometheus.Read(b.Context()); err != nil || len(samples) != pods {
			b.Fatal(len(samples), err)
		}
	}
}
