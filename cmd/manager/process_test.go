package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	soon   = 20 * time.Second
	aWhile = 500 * time.Millisecond
	often  = 20 * time.Millisecond
)

// process is a manager that runs.
type process struct {
	cmd   *exec.Cmd
	log   *output
	ended chan struct{}
	err   error
}

// output is what a process has written so far.
type output struct {
	mu       sync.Mutex
	contents bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.contents.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.contents.String()
}

// start runs the manager as the administrator, on ports of its own, until the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{log: &output{}, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), binary, append([]string{
		"--kubeconfig=" + kubeconfig(t, env.Config),
		"--health-probe-bind-address=127.0.0.1:0",
		"--metrics-bind-address=0",
	}, args...)...)
	p.cmd.Env = []string{"HOME=" + t.TempDir()}
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = soon
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		<-p.ended
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return p
}

// stop ends the manager as Kubernetes does and asserts that it takes that well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(soon):
		require.Fail(t, "it does not end")
	}
	require.NoError(t, p.err, "exit code 0")
	assert.NotContains(t, p.log.String(), "goroutine ", "no stack trace")
}

// logged returns the first line of the log that has a message and, where it is not empty, a name.
func (p *process) logged(msg, name string) map[string]any {
	for line := range strings.SplitSeq(p.log.String(), "\n") {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg && (name == "" || entry["name"] == name) {
			return entry
		}
	}
	return nil
}

// probeAddress waits until the probes are served and returns where.
func (p *process) probeAddress(t *testing.T) string {
	t.Helper()
	var entry map[string]any
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		entry = p.logged("starting server", "health probe")
		assert.NotNil(c, entry)
	}, soon, often)
	return entry["addr"].(string)
}
