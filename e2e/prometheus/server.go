// Package prometheus runs a real Prometheus server on this machine. It scrapes the
// simulated nodes of a cluster like kubelets, listens only on loopback, and writes only to
// its own folder.
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

	// excerptLines is the number of lines of the server's log that an error quotes.
	excerptLines = 15
)

// Options are the options of New.
type Options struct {
	// Dir is the folder for everything that the server writes. Two servers must not share it.
	Dir string
	// Tools is the folder with the binaries prometheus and promtool.
	Tools string
	// Nodes are the nodes whose resource metrics the server scrapes every second.
	Nodes []corev1.Node
	// Past writes samples of the past in OpenMetrics text. Each sample has a timestamp, and the
	// last line is "# EOF". The server has these samples from the start. If Past is nil, there
	// are none.
	Past func(io.Writer) error
}

// Server is a Prometheus server. It keeps its address and its data while it is stopped.
type Server struct {
	dir, tools string
	address    string
	exited     <-chan struct{} // Closed when the latest process has ended.
}

// New prepares a server: it chooses an address, and writes the configuration and past samples.
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

// URL returns the URL of the server, without a path.
func (s *Server) URL() string { return "http://" + s.address }

// Log returns the server's log file.
func (s *Server) Log() string { return filepath.Join(s.dir, "prometheus.log") }

// Start starts the server with additional arguments and waits until it is ready. The server must
// not run yet. If Start fails, it leaves no process, and the error quotes the end of the log.
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

// Stop stops the server. It does nothing if the server does not run.
func (s *Server) Stop(ctx context.Context) error { return Stop(ctx, s.dir) }

// Stop stops every server in a folder or its subfolders, no matter which process started it.
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
