package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/upright/internal/testenv"
)

// exitTimeout limits the time until a manager that cannot start exits.
const exitTimeout = 2 * connectTimeout

var (
	env    *testenv.Environment
	binary string
)

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	folder, err := os.MkdirTemp("", "manager-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "manager")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return testenv.Run(m, func(e *testenv.Environment) { env = e })
}

// kubeconfig writes a kubeconfig for config and returns its path.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	contents := clientcmdapi.NewConfig()
	contents.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	contents.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	contents.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	contents.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*contents, path))
	return path
}

// freeAddress returns a local address that is not in use.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// assertFails runs the manager and asserts that it exits with code 1 and prints one line, which
// contains all parts of a message.
func assertFails(t *testing.T, message []string, args ...string) {
	t.Helper()
	output := runFailing(t, args...)
	assert.Equal(t, 1, strings.Count(output, "\n"), "one line: %s", output)
	assertMessage(t, message, output)
}

// assertFailsInTheEnd is assertFails for an API server that does not respond. The manager logs each
// attempt before.
func assertFailsInTheEnd(t *testing.T, message []string, args ...string) {
	t.Helper()
	attempts, last, found := strings.Cut(runFailing(t, args...), "\nupright: ")
	require.True(t, found, attempts)
	for attempt := range strings.SplitSeq(attempts, "\n") {
		assert.Contains(t, attempt, tryingAgain)
	}
	assertMessage(t, message, "upright: "+last)
}

// assertMessage asserts that a line is the manager's message and has all its parts.
func assertMessage(t *testing.T, message []string, line string) {
	t.Helper()
	assert.True(t, strings.HasPrefix(line, "upright: "), line)
	for _, part := range message {
		assert.Contains(t, line, part)
	}
}

// runFailing runs the manager, asserts that it exits with code 1, and returns its output.
func runFailing(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exitTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	ports := []string{"--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=0"}
	cmd := exec.CommandContext(ctx, binary, append(ports, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = []string{"HOME=" + t.TempDir()}
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "the manager does not exit: %s", stderr.String())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Empty(t, stdout.String())
	return stderr.String()
}

func TestManagerRejectsUnknownFlag(t *testing.T) {
	t.Parallel()
	assertFails(t, []string{"-nope", "--help"}, "--nope")
}

func TestManagerRejectsInvalidPrometheusURL(t *testing.T) {
	t.Parallel()
	assertFails(t, []string{"the Prometheus URL must have the form http://host:port"},
		"--kubeconfig="+kubeconfig(t, env.Config), "--prometheus-url=prometheus:9090")
}

func TestManagerReportsMissingKubeconfig(t *testing.T) {
	t.Parallel()
	assertFails(t, []string{"load the kubeconfig: no kubeconfig found: set --kubeconfig"})
	assertFails(t, []string{"load the kubeconfig", "/does/not/exist"}, "--kubeconfig=/does/not/exist")
}

func TestManagerReportsUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	assertFailsInTheEnd(t, []string{"cannot reach the API server at http://" + address, "connection refused"},
		"--kubeconfig="+kubeconfig(t, &rest.Config{Host: "http://" + address}))
}

func TestManagerReportsMissingCRDs(t *testing.T) {
	t.Parallel()
	bare := &envtest.Environment{BinaryAssetsDirectory: testenv.Assets()}
	config, err := bare.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, bare.Stop()) })
	assertFails(t, []string{
		"Busybox.example.com, Foo.example.com, Memcached.cache.example.com, SizeTable.autoscaling.example.com, VerticalScaler.autoscaling.example.com",
		"kubectl apply -k deploy/crds",
	}, "--kubeconfig="+kubeconfig(t, config))
}
