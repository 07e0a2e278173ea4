package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// tryingAgain is the message of a log entry for each attempt to connect that has failed.
const tryingAgain = "The API server does not respond as expected; trying again"

// failFirst returns an answer of a proxy that fails the first requests.
func failFirst(count int64, code int) func(http.ResponseWriter, *http.Request) bool {
	var requests atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if requests.Add(1) > count {
			return false
		}
		http.Error(w, http.StatusText(code), code)
		return true
	}
}

func TestManagerStartsWhenTheAPIServerResponds(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"after a failure":            failFirst(1, http.StatusInternalServerError),
		"after several":              failFirst(3, http.StatusServiceUnavailable),
		"after too many requests":    failFirst(1, http.StatusTooManyRequests),
		"after a gateway's response": failFirst(1, http.StatusBadGateway),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			p := start(t, "--namespaces="+namespace, newProxy(t, answer).flag(t))
			createBusybox(t, namespace, "box")
			waitForDeployment(t, namespace, "box")
			assert.NotNil(t, p.logged(tryingAgain, ""))
			p.stop(t)
		})
	}
}

func TestConnectGivesUpAfterATimeout(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	start := time.Now()
	host := "http://" + freeAddress(t)
	_, err := connect(t.Context(), &rest.Config{Host: host}, timeout)
	require.ErrorContains(t, err, "connection refused")
	assert.GreaterOrEqual(t, time.Since(start), timeout)
}

func TestConnectDoesNotRepeatWhatStaysRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		var requests atomic.Int64
		p := newProxy(t, func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/version") {
				requests.Add(1)
				http.Error(w, http.StatusText(code), code)
				return true
			}
			return false
		})
		_, err := connect(t.Context(), &rest.Config{Host: p.server.URL}, connectTimeout)
		require.Error(t, err)
		assert.EqualValues(t, 1, requests.Load(), code)
	}
}
