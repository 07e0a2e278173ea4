// Package prometheus runs a real Prometheus server on this machine. It scrapes the
// simulated nodes of a cluster, as it would scrape kubelets, listens on loopback only,
// and writes only below a folder of its own.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/upright/e2e/cluster/loopback"
	"example.com/upright/e2e/cluster/process"
)

const (
	readyTimeout = time.Minute
	stopGrace    = 20 * time.Second
	stopTimeout  = time.Minute

	// excerptLines is how much of the server's log an error quotes.
	excerptLines = 15
)

// Options says what a server knows and where it lives.
type Options struct {
	// Dir holds everything that the server writes. No two servers may share it.
	Dir string
	// Tools is the folder of the binaries to run, prometheus and promtool.
	Tools string
	// Nodes are scraped every second for the resource metrics that a kubelet serves.
	Nodes []corev1.Node
	// Past writes the samples of past days, in OpenMetrics text with a timestamp on each
	// and "# EOF" at the end. The server has them from the start; nil stands for none.
	Past func(io.Writer) error
}

// Server is a Prometheus server, which keeps its address and its data while it is stopped.
type Server struct {
	dir, tools string
	address    string
	exited     <-chan struct{} // It is closed when the process that was started last has ended.
}

// New prepares a server: it chooses an address, and writes the configuration and the past.
func New(ctx context.Context, options Options) (*Server, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("locating Prometheus: %w", err)
	}
	tools, err := filepath.Abs(options.Tools)
	if err != nil {
		return nil, fmt.Errorf("locating the tools: %w", err)
	}
	port, err := loopback.Ports()()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, tools: tools, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if err := os.MkdirAll(s.data(), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of Prometheus: %w", err)
	}
	if err := s.writeConfig(options.Nodes); err != nil {
		return nil, err
	}
	if options.Past != nil {
		if err := s.importPast(ctx, options.Past); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// URL is the address of the server, without a path.
func (s *Server) URL() string { return "http://" + s.address }

// Log is the file with what the server wrote.
func (s *Server) Log() string { return filepath.Join(s.dir, "prometheus.log") }

// Start starts a server that does not run, with arguments besides its own, and waits until
// it is ready. When it fails, no process is left, and the error has the end of the log.
func (s *Server) Start(ctx context.Context, args ...string) error {
	if err := s.run(args); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := process.WaitReady(waiting, s.URL()+"/-/ready", s.exited); err != nil {
		excerpt := process.LogExcerpt(s.Log(), excerptLines)
		return errors.Join(fmt.Errorf("starting Prometheus: %w%s", err, excerpt), s.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// Stop stops the server, and does no harm where it does not run.
func (s *Server) Stop(ctx context.Context) error { return Stop(ctx, s.dir) }

// Stop stops every server that lives in a folder or below it, whoever started it.
func Stop(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("locating Prometheus: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := process.End(ctx, process.Runs("prometheus", dir), stopGrace); err != nil {
		return fmt.Errorf("stopping Prometheus: %w", err)
	}
	return nil
}

// run starts the process.
func (s *Server) run(args []string) (err error) {
	s.exited, err = process.Start(filepath.Join(s.tools, "prometheus"), s.Log(), append([]string{
		"--config.file=" + s.config(),
		"--storage.tsdb.path=" + s.data(),
		"--web.listen-address=" + s.address,
	}, args...)...)
	return err
}
