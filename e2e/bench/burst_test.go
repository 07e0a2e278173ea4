package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
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

		waits := u.scrape(b, "workqueue_queue_duration_seconds", "busybox")
		b.ReportMetric(took, "s-to-available")
		b.ReportMetric(float64(count)/took, "objects/s")
		b.ReportMetric(quantile(waits, 0.99), "p99-queue-s")
		b.ReportMetric(0, "ns/op") // The same as s-to-available.
	})
}

// A scraper as a monitoring system would have it.
const scraper = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: bench}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: upright-metrics-reader}
subjects:
- {kind: ServiceAccount, name: scraper, namespace: bench}
`

// scrape returns the manager's histogram of a name, for one controller. It asks for the
// format that has native histograms: the others have a bucket for each power of ten.
func (u *upright) scrape(b *testing.B, name, controller string) *dto.Histogram {
	b.Helper()
	require.NoError(b, u.cluster.Apply(b.Context(), scraper))
	token, err := u.cluster.Kubectl(b.Context(), "create", "token", "scraper", "-n", namespace)
	require.NoError(b, err)
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://"+u.manager.MetricsAddress+"/metrics", http.NoBody)
	require.NoError(b, err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	// The certificate is self-signed, as it is where none is configured.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	require.NoError(b, err)
	defer response.Body.Close()
	require.Equal(b, http.StatusOK, response.StatusCode)
	return histogram(b, expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)), name, controller)
}

// histogram returns the histogram of a name whose label controller has the value.
func histogram(b *testing.B, families expfmt.Decoder, name, controller string) *dto.Histogram {
	b.Helper()
	for {
		var family dto.MetricFamily
		err := families.Decode(&family)
		if errors.Is(err, io.EOF) {
			require.FailNow(b, "the manager has no such histogram", "%s of %s", name, controller)
		}
		require.NoError(b, err)
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == name && label.GetName() == "controller" && label.GetValue() == controller {
					return metric.GetHistogram()
				}
			}
		}
	}
}
