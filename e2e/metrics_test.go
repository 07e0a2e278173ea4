package e2e_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/e2e/cluster"
)

func TestMetricsAreServedOverTLSToThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	reader, stranger := newToken(t, namespace, "reader"), newToken(t, namespace, "stranger")
	bindMetricsReader(t, namespace, "reader")

	eventually(t, func(c *assert.CollectT) {
		status, body := scrape(c, reader)
		require.Equal(c, http.StatusOK, status)
		for _, mapper := range []string{
			"deployment-to-busyboxes", "deployment-to-memcacheds", "deployment-to-foos",
			"deployment-to-verticalscalers", "verticalscaler-to-siblings",
		} {
			require.Contains(c, body, `upright_map_failures_total{mapper="`+mapper+`"} 0`)
		}
		require.Contains(c, body, `controller_runtime_reconcile_total{controller="verticalscaler",result="success"}`)
	})
	status, body := scrape(t, stranger)
	assert.Equal(t, http.StatusForbidden, status)
	assert.NotContains(t, body, "upright_")
	status, _ = scrape(t, "")
	assert.Equal(t, http.StatusUnauthorized, status)
}

func TestMetricsAreNotServedWithoutTLS(t *testing.T) {
	t.Parallel()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+env.manager.MetricsAddress+"/metrics", http.NoBody)
	require.NoError(t, err)

	response, err := http.DefaultTransport.RoundTrip(request)

	// The connection may be closed before the answer, which says what is wrong, has been read.
	if err == nil {
		assert.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.NoError(t, response.Body.Close())
	}
}

// newToken creates a ServiceAccount and returns a token of it.
func newToken(t *testing.T, namespace, name string) string {
	t.Helper()
	account := create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, env.client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

func bindMetricsReader(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
		RoleRef:    clusterRole("upright-metrics-reader"),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
}

// scrape reads the manager's metrics and returns the status code and the body.
func scrape(t require.TestingT, token string) (int, string) { return scrapeFrom(t, env.manager, token) }

// scrapeFrom is scrape for one of several managers.
func scrapeFrom(t require.TestingT, manager *cluster.Manager, token string) (int, string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		"https://"+manager.MetricsAddress+"/metrics", http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is one that the manager has signed itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(body)
}

// metric returns the sum of a metric's series with all of the given labels.
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
