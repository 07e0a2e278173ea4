package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// proxy is between a manager and the API server. It records what the manager writes.
type proxy struct {
	server *httptest.Server
	answer func(http.ResponseWriter, *http.Request) bool

	mutex  sync.Mutex
	writes []string
}

// newProxy starts a proxy. If answer returns true, it has answered the request; the proxy sends the
// others to the API server.
func newProxy(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *proxy {
	t.Helper()
	transport, err := rest.TransportFor(env.Config)
	require.NoError(t, err)
	host, _, err := rest.DefaultServerUrlFor(env.Config)
	require.NoError(t, err)
	p := &proxy{answer: answer}
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(host) },
		FlushInterval: -1, // The events of a watch must not wait.
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.answer(w, r) {
			return
		}
		p.record(r)
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// flag returns the flag that makes a manager use the proxy.
func (p *proxy) flag(t *testing.T) string {
	t.Helper()
	return "--kubeconfig=" + kubeconfig(t, &rest.Config{Host: p.server.URL})
}

func (p *proxy) record(r *http.Request) {
	if r.Method == http.MethodGet {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writes = append(p.writes, r.Method+" "+r.URL.Path)
}

// forget drops what was recorded.
func (p *proxy) forget() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writes = nil
}

// written returns the recorded writes, except those of the Lease.
func (p *proxy) written() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(p.writes), func(write string) bool { return strings.Contains(write, "/leases/") })
}

func forwardAll(http.ResponseWriter, *http.Request) bool { return false }
