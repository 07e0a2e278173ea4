package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"example.com/upright/e2e/cluster/loopback"
	"example.com/upright/e2e/cluster/process"
)

const (
	managerGrace        = 30 * time.Second // Like terminationGracePeriodSeconds of its Deployment.
	managerReadyTimeout = time.Minute

	// excerptLines is the number of lines of a log that an error quotes.
	excerptLines = 15
)

// ManagerOptions are the options of StartManager.
type ManagerOptions struct {
	// Binary is the manager's program.
	Binary string
	// Deploy is the deploy folder. The manager gets the arguments in its file
	// manager/deployment.yaml, so that it runs as it is deployed.
	Deploy string
	// ExtraArgs come after these arguments and override them.
	ExtraArgs []string
	// Output is the manager's standard output and standard error. By default, the
	// manager appends to the file logs/manager.log in the cluster's folder.
	Output *os.File
}

// Manager is a running manager process.
type Manager struct {
	// MetricsAddress and ProbeAddress are host and port of the manager's servers.
	MetricsAddress, ProbeAddress string
	// Log is the manager's log file.
	Log string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// StartManager runs the manager with its ServiceAccount's credentials and waits
// until it is ready. If it exits before that, the error contains the end of its log.
func (c *Cluster) StartManager(ctx context.Context, options ManagerOptions) (*Manager, error) {
	args, err := deployedArgs(options.Deploy)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.ManagerKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	m, err := newManager(c.ManagerLog(), options.Output)
	if err != nil {
		return nil, err
	}
	args = append(args,
		"--kubeconfig="+kubeconfig,
		"--leader-election-namespace="+ManagerNamespace,
		"--health-probe-bind-address="+m.ProbeAddress,
		"--metrics-bind-address="+m.MetricsAddress,
	)
	if err := m.start(options, append(args, options.ExtraArgs...)); err != nil {
		return nil, err
	}
	if err := m.waitReady(ctx); err != nil {
		return nil, errors.Join(err, m.Stop(context.WithoutCancel(ctx)))
	}
	return m, nil
}

// StopManager stops all managers of this cluster, no matter which process started
// them.
func (c *Cluster) StopManager(ctx context.Context) error {
	if err := process.End(ctx, process.Mentions(c.managerKubeconfig()), managerGrace); err != nil {
		return fmt.Errorf("stopping the manager: %w", err)
	}
	return nil
}

// PID returns the id of the manager's process.
func (m *Manager) PID() int { return m.cmd.Process.Pid }

// Exited returns a channel that is closed when the manager's process has ended.
func (m *Manager) Exited() <-chan struct{} { return m.exited }

// Wait waits until the manager has ended. It returns an error if the manager failed.
func (m *Manager) Wait() error {
	<-m.exited
	return m.err
}

// Stop sends SIGTERM to the manager and waits until it has ended. It kills the
// manager after a grace period. It returns an error if it had to, or if the manager
// failed.
func (m *Manager) Stop(ctx context.Context) error {
	select {
	case <-m.exited:
		return m.err
	default:
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending SIGTERM to the manager: %w", err)
	}
	select {
	case <-m.exited:
		return m.err
	case <-time.After(managerGrace):
	case <-ctx.Done():
	}
	m.Kill()
	return errors.New("the manager did not stop after SIGTERM and was killed")
}

// Kill ends the manager like a crash: it does not release its lease.
func (m *Manager) Kill() {
	// The only possible error is that the process has already ended.
	_ = m.cmd.Process.Kill()
	<-m.exited
}

// newManager chooses the addresses and the log of a manager.
func newManager(log string, output *os.File) (*Manager, error) {
	port := loopback.Ports()
	probes, err := port()
	if err != nil {
		return nil, err
	}
	metrics, err := port()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		MetricsAddress: net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics)),
		ProbeAddress:   net.JoinHostPort("127.0.0.1", strconv.Itoa(probes)),
		exited:         make(chan struct{}),
	}
	if output == nil {
		m.Log = log
	}
	return m, nil
}

// start starts the process in its own session. It can outlive this process, and a
// terminal's Ctrl-C does not reach it directly: the caller calls Stop.
func (m *Manager) start(options ManagerOptions, args []string) error {
	output := options.Output
	if output == nil {
		if err := os.MkdirAll(filepath.Dir(m.Log), 0o755); err != nil {
			return fmt.Errorf("creating the folder of the manager's log: %w", err)
		}
		file, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return fmt.Errorf("opening the manager's log: %w", err)
		}
		defer file.Close() // The process has its own descriptor.
		output = file
	}
	m.cmd = exec.Command(options.Binary, args...)
	m.cmd.Stdout, m.cmd.Stderr = output, output
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	go func() {
		if err := m.cmd.Wait(); err != nil {
			m.err = fmt.Errorf("the manager ended: %w%s", err, m.excerpt())
		}
		close(m.exited)
	}()
	return nil
}

// waitReady waits until the manager's readiness probe succeeds. If the manager has ended, the
// error does not quote the log, because that of Stop does.
func (m *Manager) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, managerReadyTimeout)
	defer cancel()
	err := process.WaitReady(ctx, "http://"+m.ProbeAddress+"/readyz", m.exited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("starting the manager: %w%s", err, m.excerpt())
	default:
		return fmt.Errorf("starting the manager: %w", err)
	}
}

// excerpt returns the end of the manager's log, for an error.
func (m *Manager) excerpt() string {
	if m.Log == "" {
		return ""
	}
	return process.LogExcerpt(m.Log, excerptLines)
}

// deployedArgs returns the arguments in the manager's Deployment.
func deployedArgs(deploy string) ([]string, error) {
	file := filepath.Join(deploy, managerDir, "deployment.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's Deployment: %w", err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(manifest, &deployment); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 {
		return nil, fmt.Errorf("%s has %d containers, expected only that of the manager", file, len(containers))
	}
	return containers[0].Args, nil
}
