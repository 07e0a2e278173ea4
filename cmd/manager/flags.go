package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// settings are the values of the flags.
type settings struct {
	kubeconfig              string
	namespaces              []string
	concurrency             int
	maxConcurrentRollouts   int
	metricsInterval         time.Duration
	checkpointInterval      time.Duration
	prometheusURL           string
	prometheusWindow        time.Duration
	prometheusHistory       time.Duration
	probeAddress            string
	metricsAddress          string
	metricsSecure           bool
	metricsCertDir          string
	leaderElection          bool
	leaderElectionNamespace string
	logLevel                zapcore.Level
	logFormat               string
	showVersion             bool
}

// parse parses the arguments. An error has one line. --help prints the flags to out.
func parse(args []string, out io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.kubeconfig, "kubeconfig", "",
		"Path to the kubeconfig `file`. If empty, the manager uses $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount.")
	flags.Func("namespaces", "Comma-separated list of `namespaces` to watch. Defaults to all namespaces.", s.setNamespaces)
	flags.IntVar(&s.concurrency, "concurrency", 8,
		"Maximum `number` of objects of each kind that are reconciled at the same time.")
	flags.IntVar(&s.maxConcurrentRollouts, "max-concurrent-rollouts", 5,
		"Maximum `number` of Deployments in the cluster whose pods Upright replaces at the same time.")
	flags.DurationVar(&s.metricsInterval, "metrics-interval", time.Minute,
		"Interval at which the manager reads the usage of pods.")
	flags.DurationVar(&s.checkpointInterval, "checkpoint-interval", 10*time.Minute,
		"Interval at which the manager saves usage history. A manager that is killed loses at most one interval of it.")
	flags.StringVar(&s.prometheusURL, "prometheus-url", "",
		"`URL` of a Prometheus server that scrapes the kubelets. If set, the manager reads usage from it, not from the metrics API.")
	flags.DurationVar(&s.prometheusWindow, "prometheus-window", 5*time.Minute,
		"Time window over which CPU usage from Prometheus is averaged. It must be longer than two scrape intervals.")
	flags.DurationVar(&s.prometheusHistory, "prometheus-history", 8*24*time.Hour,
		"Amount of past usage that the manager reads from Prometheus for a new VerticalScaler. Set to 0 to read none.")
	flags.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081",
		"The `address` that serves the probes /healthz and /readyz. Set to 0 to disable them.")
	flags.StringVar(&s.metricsAddress, "metrics-bind-address", ":8443",
		"The `address` that serves /metrics. Set to 0 to disable it.")
	flags.BoolVar(&s.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, and only to clients that Kubernetes authenticates and authorizes.")
	flags.StringVar(&s.metricsCertDir, "metrics-cert-dir", "",
		"The `directory` with tls.crt and tls.key for metrics. If empty, the manager uses a self-signed certificate.")
	flags.BoolVar(&s.leaderElection, "leader-elect", false,
		"Elect a leader, so that only one of several managers is active at a time.")
	flags.StringVar(&s.leaderElectionNamespace, "leader-election-namespace", "",
		"The `namespace` of the leader election Lease. Defaults to the pod's namespace.")
	flags.TextVar(&s.logLevel, "log-level", zapcore.InfoLevel, "The log `level`: debug, info, warn, or error.")
	flags.StringVar(&s.logFormat, "log-format", "json", "The log `format`: json or console.")
	flags.BoolVar(&s.showVersion, "version", false, "Print the version and exit.")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: see --help", err)
	}
	if err := s.check(flags.Args()); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *settings) setNamespaces(value string) error {
	for namespace := range strings.SplitSeq(value, ",") {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("%q is not a valid namespace name", namespace)
		}
		s.namespaces = append(s.namespaces, namespace)
	}
	return nil
}

func (s *settings) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: see --help", rest[0])
	case s.concurrency < 1:
		return fmt.Errorf("invalid value %d for flag -concurrency: must be at least 1", s.concurrency)
	case s.maxConcurrentRollouts < 1:
		return fmt.Errorf("invalid value %d for flag -max-concurrent-rollouts: must be at least 1", s.maxConcurrentRollouts)
	case s.metricsInterval < time.Second:
		return fmt.Errorf("invalid value %s for flag -metrics-interval: must be at least 1s", s.metricsInterval)
	case s.checkpointInterval < time.Second:
		return fmt.Errorf("invalid value %s for flag -checkpoint-interval: must be at least 1s", s.checkpointInterval)
	case s.prometheusWindow < time.Second:
		return fmt.Errorf("invalid value %s for flag -prometheus-window: must be at least 1s", s.prometheusWindow)
	case s.prometheusHistory < 0:
		return fmt.Errorf("invalid value %s for flag -prometheus-history: must be at least 0", s.prometheusHistory)
	case s.logLevel > zapcore.ErrorLevel:
		return fmt.Errorf("invalid value %q for flag -log-level: must be debug, info, warn, or error", s.logLevel)
	case !slices.Contains([]string{"json", "console"}, s.logFormat):
		return fmt.Errorf("invalid value %q for flag -log-format: must be json or console", s.logFormat)
	default:
		return nil
	}
}

// logger returns a logger with the configured level and format. It logs errors without a stack
// trace, because their messages describe what failed.
func (s *settings) logger(out io.Writer) logr.Logger {
	encoder := zap.JSONEncoder()
	if s.logFormat == "console" {
		encoder = zap.ConsoleEncoder()
	}
	return zap.New(zap.WriteTo(out), zap.Level(s.logLevel), zap.StacktraceLevel(zapcore.PanicLevel), encoder)
}
