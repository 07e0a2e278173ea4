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

// settings are what the flags say.
type settings struct {
	kubeconfig              string
	namespaces              []string
	concurrency             int
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
}

// parse reads the arguments. An error is one line; -h prints the flags to out.
func parse(args []string, out io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.kubeconfig, "kubeconfig", "",
		"`path` of a kubeconfig; without it, the ServiceAccount of the pod, $KUBECONFIG or ~/.kube/config")
	flags.Func("namespaces", "watch these `namespaces` only, separated by commas (default: all)", s.setNamespaces)
	flags.IntVar(&s.concurrency, "concurrency", 8, "`number` of objects of a kind that are reconciled at a time")
	flags.DurationVar(&s.metricsInterval, "metrics-interval", time.Minute, "`time` from one reading of pods' usage to the next")
	flags.DurationVar(&s.checkpointInterval, "checkpoint-interval", 10*time.Minute,
		"`time` after which what was learned from usage is saved; a manager that is killed loses no more")
	flags.StringVar(&s.prometheusURL, "prometheus-url", "",
		"`address` of a Prometheus that scrapes the kubelets, to read usage from (default: the metrics API)")
	flags.DurationVar(&s.prometheusWindow, "prometheus-window", 5*time.Minute,
		"`time` over which CPU usage in Prometheus is averaged: more than from one scrape to the next but one")
	flags.DurationVar(&s.prometheusHistory, "prometheus-history", 8*24*time.Hour,
		"`time` before its creation of which a VerticalScaler learns from Prometheus; 0 for none")
	flags.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081",
		"`address` of the probes /healthz and /readyz; 0 turns them off")
	flags.StringVar(&s.metricsAddress, "metrics-bind-address", ":8443", "`address` of /metrics; 0 turns it off")
	flags.BoolVar(&s.metricsSecure, "metrics-secure", true,
		"serve metrics over TLS, to clients that Kubernetes authenticates and authorizes")
	flags.StringVar(&s.metricsCertDir, "metrics-cert-dir", "",
		"`folder` with tls.crt and tls.key for metrics (default: a self-signed certificate)")
	flags.BoolVar(&s.leaderElection, "leader-elect", false, "of several managers, let one at a time act")
	flags.StringVar(&s.leaderElectionNamespace, "leader-election-namespace", "",
		"`namespace` of the leader election's Lease (default: the pod's own)")
	flags.TextVar(&s.logLevel, "log-level", zapcore.InfoLevel, "`level` of the log: debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", "json", "`format` of the log: json or console")
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
			return fmt.Errorf("%q is not the name of a namespace", namespace)
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
		return fmt.Errorf("invalid value %d for flag -concurrency: it must be at least 1", s.concurrency)
	case s.metricsInterval < time.Second:
		return fmt.Errorf("invalid value %s for flag -metrics-interval: it must be at least 1s", s.metricsInterval)
	case s.checkpointInterval < time.Second:
		return fmt.Errorf("invalid value %s for flag -checkpoint-interval: it must be at least 1s", s.checkpointInterval)
	case s.prometheusWindow < time.Second:
		return fmt.Errorf("invalid value %s for flag -prometheus-window: it must be at least 1s", s.prometheusWindow)
	case s.prometheusHistory < 0:
		return fmt.Errorf("invalid value %s for flag -prometheus-history: it must be 0 or more", s.prometheusHistory)
	case s.logLevel > zapcore.ErrorLevel:
		return fmt.Errorf("invalid value %q for flag -log-level: it must be debug, info, warn or error", s.logLevel)
	case !slices.Contains([]string{"json", "console"}, s.logFormat):
		return fmt.Errorf("invalid value %q for flag -log-format: it must be json or console", s.logFormat)
	default:
		return nil
	}
}

// logger returns the log that the settings ask for. Errors carry no stack trace: they say
// what was being done.
func (s *settings) logger(out io.Writer) logr.Logger {
	encoder := zap.JSONEncoder()
	if s.logFormat == "console" {
		encoder = zap.ConsoleEncoder()
	}
	return zap.New(zap.WriteTo(out), zap.Level(s.logLevel), zap.StacktraceLevel(zapcore.PanicLevel), encoder)
}
