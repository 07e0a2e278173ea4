package prometheus_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/upright/e2e/cluster/process"
	"example.com/upright/e2e/prometheus"
)

const tools = "../../.tools/bin"

func TestFailedStartQuotesTheLogAndLeavesNoProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := prometheus.New(t.Context(), prometheus.Options{Dir: dir, Tools: tools})
	require.NoError(t, err)

	err = server.Start(t.Context(), "--no-such-flag")

	require.ErrorContains(t, err, "ended before it was ready")
	require.ErrorContains(t, err, "unknown long flag '--no-such-flag'")
	assertNoProcess(t, dir)
}

func TestStopByFolderStopsAnyServerInIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := prometheus.New(t.Context(), prometheus.Options{Dir: dir + "/prometheus", Tools: tools})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))

	require.NoError(t, prometheus.Stop(t.Context(), dir))

	assertNoProcess(t, dir)
	require.NoError(t, server.Stop(t.Context()), "stopping it again")
}

func TestNewRejectsPastSamplesInAnotherFormat(t *testing.T) {
	t.Parallel()
	_, err := prometheus.New(t.Context(), prometheus.Options{
		Dir: t.TempDir(), Tools: tools,
		Past: func(w io.Writer) error { _, err := fmt.Fprintln(w, "no metrics"); return err },
	})

	require.ErrorContains(t, err, "creating blocks from")
}

func TestNewRejectsANodeWithoutAnAddress(t *testing.T) {
	t.Parallel()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}

	_, err := prometheus.New(t.Context(), prometheus.Options{Dir: t.TempDir(), Tools: tools, Nodes: []corev1.Node{node}})

	require.ErrorContains(t, err, "node node-0 has no internal IP address")
}

func assertNoProcess(t *testing.T, dir string) {
	t.Helper()
	ids, err := process.Find(process.Mentions(dir))
	require.NoError(t, err)
	assert.Empty(t, ids, "processes of the server in %s", dir)
}
