package e2e_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/e2e/cluster"
)

// newToken creates a ServiceAccount and returns a token for it.
func newToken(t *testing.T, namespace, name string) string {
	t.Helper()
	account := create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, env.client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// bindMetricsReader allows a ServiceAccount to read the manager's metrics.
func bindMetricsReader(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
		RoleRef:    clusterRole("upright-metrics-reader"),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
}

// scrape requests the current manager's metrics and returns the status code and the body.
func scrape(t require.TestingT, token string) (int, string) { return scrapeFrom(t, env.manager, token) }

// scrapeFrom is scrape for any manager.
func scrapeFrom(t require.TestingT, manager *cluster.Manager, token string) (int, string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		"https://"+manager.MetricsAddress+"/metrics", http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The manager's certificate is self-signed.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(body)
}

// metric returns the sum over all series of a metric that have these labels.
func metric(t require.TestingT, body, name string, labels ...string) float64 {
	sum := 0.0
next:
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue next
			}
		}
		number, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err)
		sum += number
	}
	return sum
}
