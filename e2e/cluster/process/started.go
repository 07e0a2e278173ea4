package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// readyInterval is how often WaitReady checks whether a process is ready.
const readyInterval = 20 * time.Millisecond

// Start runs a program as a daemon, in its own session. The program appends its output to a log.
// The returned channel is closed when the program has ended.
func Start(program, log string, args ...string) (exited <-chan struct{}, err error) {
	name := filepath.Base(program)
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer output.Close() // The process has its own descriptor.
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	return ended, nil
}

// WaitReady waits until a GET request for a URL of the process returns 200. It returns an error
// if the process or the context ends before that.
func WaitReady(ctx context.Context, url string, exited <-chan struct{}) error {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("waiting until it is ready: %w", ctx.Err())
		case <-tick.C:
		}
		if answers(ctx, url) {
			return nil
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// LogExcerpt returns the last lines of a process's log, as the end of an error message.
func LogExcerpt(path string, count int) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return "; cannot read its log: " + err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(log, nil))), "\n")
	lines = lines[max(0, len(lines)-count):]
	return fmt.Sprintf("; its log %s ends with\n%s", path, strings.Join(lines, "\n"))
}
