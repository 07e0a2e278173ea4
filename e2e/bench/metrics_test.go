package bench

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// scraper is a ServiceAccount that may read metrics, like that of a monitoring system.
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

// families are the manager's metrics, by name.
type families map[string]*dto.MetricFamily

// scrape returns the manager's metrics. It requests the only format with native histograms:
// in the other formats, a histogram has one bucket per power of ten.
func (u *upright) scrape(b *testing.B) families {
	b.Helper()
	require.NoError(b, u.cluster.Apply(b.Context(), scraper))
	token, err := u.cluster.Kubectl(b.Context(), "create", "token", "scraper", "-n", namespace)
	require.NoError(b, err)
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://"+u.manager.MetricsAddress+"/metrics", http.NoBody)
	require.NoError(b, err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	// No certificate is configured, so that the manager signs its own.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	require.NoError(b, err)
	defer response.Body.Close()
	require.Equal(b, http.StatusOK, response.StatusCode)
	found := families{}
	decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(b, err)
		found[family.GetName()] = &family
	}
}

// of returns the metrics with a name for one controller. There must be at least one.
func (f families) of(b *testing.B, name, controller string) []*dto.Metric {
	b.Helper()
	found := slices.DeleteFunc(slices.Clone(f[name].GetMetric()), func(metric *dto.Metric) bool {
		return !slices.ContainsFunc(metric.GetLabel(), func(label *dto.LabelPair) bool {
			return label.GetName() == "controller" && label.GetValue() == controller
		})
	})
	require.NotEmpty(b, found, "metric %s of controller %s", name, controller)
	return found
}

// count returns the sum of the counters with a name for one controller.
func (f families) count(b *testing.B, name, controller string) float64 {
	b.Helper()
	sum := 0.0
	for _, metric := range f.of(b, name, controller) {
		sum += metric.GetCounter().GetValue()
	}
	return sum
}
