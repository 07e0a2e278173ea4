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

func TestManagerSaysThatItsKubeconfigIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte("{not a kubeconfig"), 0o600))
	assertGivesUp(t, []string{"load the kubeconfig", path}, "--kubeconfig="+path)
}

func TestManagerSaysThatTheAPIServerDoesNotKnowIt(t *testing.T) {
	t.Parallel()
	stranger := rest.CopyConfig(env.Config)
	stranger.CertData, stranger.KeyData = nil, nil
	assertGivesUp(t, []string{"look up the kinds"}, "--kubeconfig="+kubeconfig(t, stranger))
}

func TestManagerSaysThatItDoesNotTrustTheAPIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	assertGivesUp(t, []string{"cannot reach the API server at " + server.URL, "certificate"},
		"--kubeconfig="+kubeconfig(t, &rest.Config{Host: server.URL}))
}

func TestManagerDoesNotWaitForAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	for _, scheme := range []string{"http://", "https://"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			host := scheme + listener.Addr().String()
			assertGivesUp(t, []string{"cannot reach the API server at " + host + ": it does not answer"},
				"--kubeconfig="+kubeconfig(t, &rest.Config{Host: host}))
		})
	}
}

func TestManagerNamesTheOneCRDThatIsMissing(t *testing.T) {
	t.Parallel()
	partly := &envtest.Environment{
		BinaryAssetsDirectory: testenv.Assets(),
		CRDDirectoryPaths: []string{
			filepath.Join(testenv.Root(), "deploy", "crds", "example.com_busyboxes.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "example.com_foos.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "cache.example.com_memcacheds.yaml"),
			filepath.Join(testenv.Root(), "deploy", "crds", "autoscaling.example.com_verticalscalers.yaml"),
		},
		ErrorIfCRDPathMissing: true,
	}
	config, err := partly.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, partly.Stop()) })
	assertGivesUp(t, []string{"does not serve VerticalScalerCheckpoint.autoscaling.example.com: install the CRDs"},
		"--kubeconfig="+kubeconfig(t, config))
}

func TestManagerSaysThatItKnowsNoNamespaceForItsLease(t *testing.T) {
	t.Parallel()
	assertGivesUp(t, []string{"leader election namespace"}, "--leader-elect",
		"--kubeconfig="+kubeconfig(t, env.Config))
}

func TestManagerSaysWhichAddressItCannotServeOn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	taken := listener.Addr().String()
	assertGivesUp(t, []string{taken, "address already in use"},
		"--kubeconfig="+kubeconfig(t, env.Config), "--health-probe-bind-address="+taken)
}
