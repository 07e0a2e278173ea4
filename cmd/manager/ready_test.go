package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holdUntil returns an answer of a proxy that lets requests whose path has a suffix wait until the
// channel is closed.
func holdUntil(released <-chan struct{}, suffix string) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, suffix) {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
		return false
	}
}

// assertReadiness waits until the probe /readyz has a status code. The manager is alive all the time.
func assertReadiness(t *testing.T, address string, want int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, body := get(c, "http://"+address+"/readyz", "")
		assert.Equal(c, want, code, body)
		code, _ = get(c, "http://"+address+"/healthz", "")
		assert.Equal(c, http.StatusOK, code)
	}, timeout, pollInterval)
}

func TestManagerIsNotReadyBeforeItsCachesAreFilled(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"/busyboxes", "/verticalscalers", "/sizetables", "/deployments"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			released := make(chan struct{})
			p := start(t, "--namespaces="+namespace, "--leader-elect", "--leader-election-namespace="+namespace,
				newProxy(t, holdUntil(released, resource)).flag(t))
			address := p.probeAddress(t)
			for range 5 {
				assertReadiness(t, address, http.StatusInternalServerError)
			}
			close(released)
			assertReadiness(t, address, http.StatusOK)
			p.stop(t)
		})
	}
}

func TestLeaderIsReadyAfterTheFirstReadingOfUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"without leader election": nil, "with leader election": {"--leader-elect"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			released := make(chan struct{})
			p := start(t, append(args, "--namespaces="+namespace, "--leader-election-namespace="+namespace,
				newProxy(t, holdUntil(released, "/verticalscalercheckpoints")).flag(t))...)
			address := p.probeAddress(t)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NotNil(c, p.logged("Starting workers", ""), "the manager leads")
			}, timeout, pollInterval)
			for range 5 {
				assertReadiness(t, address, http.StatusInternalServerError)
			}
			close(released)
			assertReadiness(t, address, http.StatusOK)
			p.stop(t)
		})
	}
}
