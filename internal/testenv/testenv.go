// Package testenv runs a real kube-apiserver and etcd, with Upright's CRDs, for integration tests.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"example.com/upright/apis"
)

// Environment is a running API server.
type Environment struct {
	// Config connects to the API server as an administrator, without a rate limit.
	Config *rest.Config
	// Client reads from and writes to the API server directly.
	Client client.Client
}

// Run starts an environment, hands it to use, runs the tests and stops the environment,
// also when the process is interrupted. It returns the exit code for os.Exit.
func Run(m *testing.M, use func(*Environment)) int {
	apiServer := newAPIServer()
	log.SetLogger(logr.Discard()) // Managers of tests have their own loggers.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	environment, err := start(apiServer)
	code := 1
	if err == nil {
		err = SetParallel(parallel)
	}
	if err == nil {
		use(environment)
		code = runUnless(interrupted, m)
	}
	if err := errors.Join(err, apiServer.Stop()); err != nil {
		fmt.Fprintf(os.Stderr, "test environment: %v\n", err)
		return 1
	}
	return code
}

// runUnless runs the tests and returns early, with a failure, on a signal.
func runUnless(interrupted <-chan os.Signal, m *testing.M) int {
	done := make(chan int, 1)
	go func() { done <- m.Run() }()
	select {
	case code := <-done:
		return code
	case s := <-interrupted:
		fmt.Fprintf(os.Stderr, "interrupted (%v): stopping the API server\n", s)
		return 1
	}
}

// Start starts another environment, whose API server has further flags, until a test ends.
func Start(t testing.TB, flags map[string]string) *Environment {
	t.Helper()
	apiServer := newAPIServer()
	for name, value := range flags {
		apiServer.ControlPlane.GetAPIServer().Configure().Set(name, value)
	}
	t.Cleanup(func() { require.NoError(t, apiServer.Stop()) })
	environment, err := start(apiServer)
	require.NoError(t, err)
	return environment
}

func newAPIServer() *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(Root(), "deploy", "crds")},
		ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: Assets(),
	}
}

func start(apiServer *envtest.Environment) (*Environment, error) {
	config, err := apiServer.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server (are the tools built? make tools): %w", err)
	}
	config.QPS, config.Burst = -1, 0
	c, err := client.New(config, client.Options{Scheme: apis.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return &Environment{Config: config, Client: c}, nil
}

// Namespace creates a namespace for one test and returns its name.
func (e *Environment) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, e.Client.Create(context.Background(), namespace))
	return namespace.Name
}

// Assets returns the folder with the binaries of kube-apiserver and etcd.
func Assets() string { return filepath.Join(Root(), ".tools", "bin") }

// Root returns the root folder of the project.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
