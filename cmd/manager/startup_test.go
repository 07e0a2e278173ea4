package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/upright/internal/testenv"
)

func TestManagerReportsInvalidKubeconfig(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte("{not a kubeconfig"), 0o600))
	assertFails(t, []string{"load the kubeconfig", path}, "--kubeconfig="+path)
}

func TestManagerReportsRejectedCredentials(t *testing.T) {
	t.Parallel()
	anonymous := rest.CopyConfig(env.Config)
	anonymous.CertData, anonymous.KeyData = nil, nil
	assertFails(t, []string{"look up the kinds"}, "--kubeconfig="+kubeconfig(t, anonymous))
}

func TestManagerReportsUntrustedAPIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	assertFails(t, []string{"cannot reach the API server at " + server.URL, "certificate"},
		"--kubeconfig="+kubeconfig(t, &rest.Config{Host: server.URL}))
}

func TestManagerReportsUnresponsiveAPIServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	for _, scheme := range []string{"http://", "https://"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			host := scheme + listener.Addr().String()
			assertFailsInTheEnd(t, []string{"cannot reach the API server at " + host + ": no response"},
				"--kubeconfig="+kubeconfig(t, &rest.Config{Host: host}))
		})
	}
}

func TestManagerReportsOneMissingCRD(t *testing.T) {
	t.Parallel()
	environment := &envtest.Environment{
		BinaryAssetsDirectory: testenv.Assets(),
		CRDDirectoryPaths: []string{
			filepath.Join(testenv.Root(), "deploy", "crds", "example.com_busyboxes.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "example.com_foos.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "cache.example.com_memcacheds.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "autoscaling.example.com_verticalscalers.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "autoscaling.example.com_sizetables.yaml"),
		},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, environment.Stop()) })
	assertFails(t, []string{"does not serve VerticalScalerCheckpoint.autoscaling.example.com: install the CRDs"},
		"--kubeconfig="+kubeconfig(t, config))
}

func TestManagerReportsMissingLeaseNamespace(t *testing.T) {
	t.Parallel()
	assertFails(t, []string{"leader election namespace"}, "--leader-elect",
		"--kubeconfig="+kubeconfig(t, env.Config))
}

func TestManagerReportsAddressInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	taken := listener.Addr().String()
	assertFails(t, []string{taken, "address already in use"},
		"--kubeconfig="+kubeconfig(t, env.Config), "--health-probe-bind-address="+taken)
}
