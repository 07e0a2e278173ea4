package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"example.com/upright/internal/testenv"
)

// insecure gets pages whose certificate nobody signed.
var insecure = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	DisableKeepAlives: true,
}}

// get returns the status code and body of a page.
func get(t require.TestingT, url, token string) (int, string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := insecure.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestProbesAnswerWhileTheManagerRuns(t *testing.T) {
	t.Parallel()
	p := start(t, "--namespaces="+env.Namespace(t))
	address := p.probeAddress(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			code, body := get(c, "http://"+address+path, "")
			assert.Equal(c, http.StatusOK, code, path)
			assert.Equal(c, "ok", body, path)
		}, soon, often)
	}
	p.stop(t)
}

// newToken creates a ServiceAccount and returns a token of its.
func newToken(t *testing.T, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, env.Client.Create(t.Context(), account))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, env.Client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// allowMetrics gives a ServiceAccount the role that is deployed for reading metrics.
func allowMetrics(t *testing.T, namespace, name string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(testenv.Root(), "deploy", "rbac", "metrics_reader.yaml"))
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(manifest, role))
	if err := env.Client.Create(t.Context(), role.DeepCopy()); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}))
}

func TestMetricsAreServedOverTLSToThoseWhoMayReadThemOnly(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	address := freeAddress(t)
	p := start(t, "--namespaces="+namespace, "--metrics-bind-address="+address)
	anyone, reader := newToken(t, namespace, "anyone"), newToken(t, namespace, "reader")
	allowMetrics(t, namespace, "reader")
	for name, test := range map[string]struct {
		token string
		code  int
	}{
		"no token":              {"", http.StatusUnauthorized},
		"a token, but no right": {anyone, http.StatusForbidden},
		"the right":             {reader, http.StatusOK},
	} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			code, body := get(c, "https://"+address+"/metrics", test.token)
			assert.Equal(c, test.code, code, name)
			assert.Equal(c, code == http.StatusOK, strings.Contains(body, "upright_map_failures_total"), name)
		}, soon, often)
	}
	code, body := get(t, "https://"+address+"/metrics", "a-strangers-token")
	assert.GreaterOrEqual(t, code, 400)
	assert.NotContains(t, body, "upright_map_failures_total")
	p.stop(t)
}

func TestMetricsAreServedPlainlyWhereAskedFor(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	start(t, "--namespaces="+env.Namespace(t), "--metrics-bind-address="+address, "--metrics-secure=false")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, body := get(c, "http://"+address+"/metrics", "")
		assert.Equal(c, http.StatusOK, code)
		assert.Contains(c, body, "controller_runtime_")
	}, soon, often)
}
