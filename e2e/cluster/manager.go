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
	managerGrace        = 30 * time.Second // What a pod of it has, too.
	managerReadyTimeout = time.Minute

	// excerptLines is how much of the manager's log an error quotes.
	excerptLines = 15
)

// ManagerOptions says what manager to run.
type ManagerOptions struct {
	// Binary is the manager's program.
	Binary string
	// Deploy is the deploy folder. The manager gets the arguments that
	// manager/deployment.yaml in it has, so that what runs here is what is deployed.
	Deploy string
	// ExtraArgs come after these and override them.
	ExtraArgs []string
	// Output is where the manager writes; by default to the end of the file
	// logs/manager.log in the cluster's folder.
	Output *os.File
}

// Manager is a running manager process.
type Manager struct {
	// MetricsAddress and ProbeAddress are where the manager serves, host and port.
	MetricsAddress, ProbeAddress string
	// Log is the file with what the manager wrote.
	Log string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// StartManager runs the manager under its ServiceAccount's credentials and waits
// until it is ready. Where it exits before, the error has the end of its log.
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

// StopManager stops the manager of this cluster that another process started, if
// there is one.
func (c *Cluster) StopManager(ctx context.Context) error {
	if err := process.End(ctx, process.Mentions(c.managerKubeconfig()), managerGrace); err != nil {
		return fmt.Errorf("stopping the manager: %w", err)
	}
	return nil
}

// PID is the id of the manager's process.
func (m *Manager) PID() int { return m.cmd.Process.Pid }

// Exited is closed when the manager's process has ended.
func (m *Manager) Exited() <-chan struct{} { return m.exited }

// Wait waits for the manager to end and returns how it did.
func (m *Manager) Wait() error {
	<-m.exited
	return m.err
}

// Stop asks the manager to stop, waits until it has, and kills it if that takes
// too long. It returns an error unless the manager ended as it should.
func (m *Manager) Stop(ctx context.Context) error {
	select {
	case <-m.exited:
		return m.err
	default:
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("asking the manager to stop: %w", err)
	}
	select {
	case <-m.exited:
		return m.err
	case <-time.After(managerGrace):
	case <-ctx.Done():
	}
	m.Kill()
	return errors.New("the manager did not stop when asked to and was killed")
}

// Kill ends the manager at once, as a crash would: it does not give up its lease.
func (m *Manager) Kill() {
	// The only error is that the process has ended already.
	_ = m.cmd.Process.Kill()
	<-m.exited
}

// newManager chooses where the manager serves and opens its log.
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

// start starts the process in a session of its own, so that it outlives whoever
// started it and a terminal's Ctrl-C reaches it through Stop alone.
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
		defer file.Close() // The process keeps a descriptor of its own.
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

// waitReady waits until the manager's readiness probe succeeds. Of one that ended before,
// Stop returns how, with the end of its log.
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

// excerpt is the end of the manager's log, to be quoted in an error.
func (m *Manager) excerpt() string {
	if m.Log == "" {
		return ""
	}
	return process.LogExcerpt(m.Log, excerptLines)
}

// deployedArgs returns the arguments of the manager's container as it is deployed.
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
		return nil, fmt.Errorf("%s has %d containers and not the manager's alone", file, len(containers))
	}
	return containers[0].Args, nil
}
