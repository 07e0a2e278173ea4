package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"example.com/upright/internal/testenv"
)

// insecure is a client that accepts self-signed certificates.
var insecure = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	DisableKeepAlives: true,
}}

// get returns the status code and body of a response.
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

func TestManagerServesProbes(t *testing.T) {
	t.Parallel()
	p := start(t, "--namespaces="+env.Namespace(t))
	address := p.probeAddress(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			code, body := get(c, "http://"+address+path, "")
			assert.Equal(c, http.StatusOK, code, path)
			assert.Equal(c, "ok", body, path)
		}, timeout, pollInterval)
	}
	p.stop(t)
}

// newToken creates a ServiceAccount and returns a token for it.
func newToken(t *testing.T, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, env.Client.Create(t.Context(), account))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, env.Client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// allowMetrics binds the ClusterRole for reading metrics to a ServiceAccount. It returns when the
// API server allows access, because the manager caches denials.
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
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:                  "system:serviceaccount:" + namespace + ":" + name,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		current := review.DeepCopy()
		require.NoError(c, env.Client.Create(t.Context(), current))
		assert.True(c, current.Status.Allowed)
	}, timeout, pollInterval)
}

// getWithoutTLS sends plain HTTP to a server that expects TLS, and returns the status code and
// body of the response. It sends only the five bytes that the server reads: with more, the server
// resets the connection, and the client can lose the response.
func getWithoutTLS(t *testing.T, address string) (int, string) {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer connection.Close()
	require.NoError(t, connection.SetDeadline(time.Now().Add(timeout)))
	_, err = connection.Write([]byte("GET /"))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestMetricsRequireTLSAndPermission(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	address := freeAddress(t)
	p := start(t, "--namespaces="+namespace, "--metrics-bind-address="+address)
	stranger, reader := newToken(t, namespace, "stranger"), newToken(t, namespace, "reader")
	allowMetrics(t, namespace, "reader")
	for name, test := range map[string]struct {
		token string
		code  int
	}{
		"no token":         {"", http.StatusUnauthorized},
		"an invalid token": {"invalid", http.StatusUnauthorized},
		"no permission":    {stranger, http.StatusForbidden},
		"permission":       {reader, http.StatusOK},
	} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			code, body := get(c, "https://"+address+"/metrics", test.token)
			assert.Equal(c, test.code, code, name)
			assert.Equal(c, code == http.StatusOK, strings.Contains(body, "upright_map_failures_total"), name)
		}, timeout, pollInterval)
	}
	code, body := getWithoutTLS(t, address)
	assert.Equal(t, http.StatusBadRequest, code)
	assert.Contains(t, body, "Client sent an HTTP request to an HTTPS server.")
	p.stop(t)
}

func TestMetricsWithoutTLSNeedNoToken(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	start(t, "--namespaces="+env.Namespace(t), "--metrics-bind-address="+address, "--metrics-secure=false")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, body := get(c, "http://"+address+"/metrics", "")
		assert.Equal(c, http.StatusOK, code)
		assert.Contains(c, body, "controller_runtime_")
	}, timeout, pollInterval)
}
