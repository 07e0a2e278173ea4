package main

import (
	"bytes"
	"flag"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
)

func TestDefaultSettingsAreSafe(t *testing.T) {
	s, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.True(t, s.metricsSecure, "metrics require TLS, authentication, and authorization")
	assert.Equal(t, ":8443", s.metricsAddress)
	assert.Equal(t, ":8081", s.probeAddress)
	assert.Equal(t, zapcore.InfoLevel, s.logLevel)
	assert.Empty(t, s.namespaces)
	assert.Equal(t, time.Minute, s.metricsInterval)
	assert.Equal(t, 10*time.Minute, s.checkpointInterval)
	assert.Empty(t, s.prometheusURL, "usage comes from the metrics API")
	assert.Equal(t, 5*time.Minute, s.prometheusWindow)
}

func TestEachFlagSetsItsSetting(t *testing.T) {
	s, err := parse([]string{
		"--kubeconfig=/a/b", "--namespaces=one,two", "--concurrency=3", "--max-concurrent-rollouts=4",
		"--metrics-interval=2s", "--checkpoint-interval=3s", "--prometheus-url=http://p:9090",
		"--prometheus-window=90s", "--prometheus-history=24h",
		"--health-probe-bind-address=:1", "--metrics-bind-address=:2", "--metrics-secure=false", "--metrics-cert-dir=/c",
		"--leader-elect", "--leader-election-namespace=ns", "--log-level=debug", "--log-format=console",
		"--version",
	}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, &settings{
		kubeconfig: "/a/b", namespaces: []string{"one", "two"}, concurrency: 3, maxConcurrentRollouts: 4,
		metricsInterval: 2 * time.Second, checkpointInterval: 3 * time.Second,
		prometheusURL: "http://p:9090", prometheusWindow: 90 * time.Second, prometheusHistory: 24 * time.Hour,
		probeAddress: ":1", metricsAddress: ":2", metricsSecure: false, metricsCertDir: "/c",
		leaderElection: true, leaderElectionNamespace: "ns", logLevel: zapcore.DebugLevel, logFormat: "console",
		showVersion: true,
	}, s)
}

func TestInvalidFlagFailsWithOneLine(t *testing.T) {
	for arg, message := range map[string]string{
		"--nope":                      "flag provided but not defined: -nope: see --help",
		"--concurrency=many":          `invalid value "many" for flag -concurrency`,
		"--concurrency=0":             "invalid value 0 for flag -concurrency: must be at least 1",
		"--max-concurrent-rollouts=0": "invalid value 0 for flag -max-concurrent-rollouts: must be at least 1",
		"--metrics-interval=1":        `invalid value "1" for flag -metrics-interval`,
		"--metrics-interval=1ms":      "invalid value 1ms for flag -metrics-interval: must be at least 1s",
		"--checkpoint-interval=0s":    "invalid value 0s for flag -checkpoint-interval: must be at least 1s",
		"--prometheus-window=0s":      "invalid value 0s for flag -prometheus-window: must be at least 1s",
		"--prometheus-history=-1h":    "invalid value -1h0m0s for flag -prometheus-history: must be at least 0",
		"--log-level=loud":            `invalid value "loud" for flag -log-level`,
		"--log-level=fatal":           `invalid value "fatal" for flag -log-level: must be debug, info, warn, or error`,
		"--log-format=xml":            `invalid value "xml" for flag -log-format: must be json or console`,
		"--leader-elect=maybe":        `invalid boolean value "maybe" for -leader-elect`,
		"--namespaces=a,B":            `"B" is not a valid namespace name`,
		"--namespaces=":               `"" is not a valid namespace name`,
		"start":                       `unexpected argument "start": see --help`,
	} {
		_, err := parse([]string{arg}, io.Discard)
		require.ErrorContains(t, err, message, arg)
		assert.NotContains(t, err.Error(), "\n", arg)
	}
}

func TestVersionIsPrintedWithoutACluster(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"--version", "--kubeconfig=/does/not/exist"}, &out))
	assert.Regexp(t, `^upright \S+, commit .+, go1\.\d+\S*, `+runtime.GOOS+"/"+runtime.GOARCH+"\n$", out.String())
}

func TestHelpListsEveryFlag(t *testing.T) {
	var out bytes.Buffer
	_, err := parse([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{
		"kubeconfig", "namespaces", "concurrency", "max-concurrent-rollouts", "metrics-interval", "checkpoint-interval",
		"prometheus-url", "prometheus-window", "prometheus-history",
		"health-probe-bind-address", "metrics-bind-address", "metrics-secure", "metrics-cert-dir",
		"leader-elect", "leader-election-namespace", "log-level", "log-format",
	} {
		assert.Contains(t, out.String(), "  -"+name, name)
	}
}

func TestLoggerHasConfiguredFormatAndLevel(t *testing.T) {
	for format, start := range map[string]string{"json": "{", "console": "20"} {
		s, err := parse([]string{"--log-format=" + format, "--log-level=warn"}, io.Discard)
		require.NoError(t, err)
		var out bytes.Buffer
		log := s.logger(&out)
		log.Info("below the level")
		log.Error(assert.AnError, "failed", "key", "value")
		assert.Equal(t, 1, strings.Count(out.String(), "\n"), "expect one line without a stack trace: %s", out.String())
		assert.True(t, strings.HasPrefix(out.String(), start), out.String())
	}
}
