package usage

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
)

// defaultWindow is the default time over which CPU usage is averaged. kubernetes-mixin uses the same
// window in its recording rule
// node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m.
const defaultWindow = 5 * time.Minute

// PrometheusConfig selects a Prometheus server, and the usage to read from it.
type PrometheusConfig struct {
	// URL is the address of the HTTP API, without /api/v1. It may contain a user and a password.
	URL string
	// Window is the time over which CPU usage is averaged. It must be longer than two scrape
	// intervals: a rate needs two samples. The default is 5 minutes.
	Window time.Duration
	// Namespaces limits Read to the pods in these namespaces. If it is empty, Read reads all.
	Namespaces []string
}

// Prometheus reads usage from a Prometheus server that scrapes the cAdvisor endpoints of the
// kubelets. It reads the metrics container_cpu_usage_seconds_total and
// container_memory_working_set_bytes with the labels namespace, pod, and container. If a container
// has several series of a metric (before and after a restart, or because it is scraped twice), the
// highest value counts. Pod sandboxes and the cgroups of whole pods are excluded.
//
// Memory is the highest working set in the window, so that a short peak between two reads counts.
// CPU is averaged over the whole window, so a container has no sample before it has been scraped
// for that long.
type Prometheus struct {
	api        promv1.API
	past       promv1.API // Its responses are limited.
	warnings   *warnings
	address    string // without the password
	window     time.Duration
	namespaces []string
}

// NewPrometheus returns a Source and HistoryProvider, or an error if the URL is invalid.
func NewPrometheus(config PrometheusConfig) (*Prometheus, error) {
	address, err := parseAddress(config.URL)
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: config.URL})
	if err != nil {
		return nil, fmt.Errorf("create a client for Prometheus: %w", err)
	}
	pastClient, err := api.NewClient(api.Config{Address: config.URL, RoundTripper: limitResponses(api.DefaultRoundTripper)})
	if err != nil {
		return nil, fmt.Errorf("create a client for Prometheus: %w", err)
	}
	window := config.Window.Truncate(time.Millisecond)
	if window <= 0 {
		window = defaultWindow
	}
	return &Prometheus{
		api:        promv1.NewAPI(client),
		past:       promv1.NewAPI(pastClient),
		warnings:   &warnings{},
		address:    address.Redacted(),
		window:     window,
		namespaces: config.Namespaces,
	}, nil
}

// Read returns the newest sample of every container that has been scraped for a whole window. The
// time of a sample is the time of the last scrape. If Prometheus has no such container, Read returns
// neither samples nor an error: Prometheus may not scrape any kubelet.
func (p *Prometheus) Read(ctx context.Context) ([]Sample, error) {
	selector := ""
	if len(p.namespaces) > 0 {
		selector = ",namespace=~" + strconv.Quote(strings.Join(p.namespaces, "|"))
	}
	cpu, err := p.query(ctx, cpuQuery(selector, p.window), time.Time{})
	if err != nil || len(cpu) == 0 {
		return nil, err
	}
	at := cpu[0].Timestamp.Time() // in the clock of Prometheus; the other queries use the same time
	memory, err := p.query(ctx, memoryQuery(selector, p.window), at)
	if err != nil {
		return nil, err
	}
	scraped, err := p.query(ctx, scrapedQuery(selector), at)
	if err != nil {
		return nil, err
	}
	return join(cpu, byContainer(memory), byContainer(scraped)), nil
}

// join returns a sample for each container that is in all three results.
func join(cpu model.Vector, memory, scraped map[container]float64) []Sample {
	samples := make([]Sample, 0, len(cpu))
	for _, s := range cpu {
		c := containerOf(s.Metric)
		bytes, hasMemory := memory[c]
		seconds, hasTime := scraped[c]
		if hasMemory && hasTime {
			at := model.Time(math.Round(seconds * 1000))
			samples = append(samples, newSample(c, at, float64(s.Value), bytes))
		}
	}
	return samples
}

// cpuQuery returns the query for CPU usage in cores, averaged over the window. The selector has
// additional label matchers, each after a comma. A pod sandbox has the container "POD" with some
// runtimes. With other runtimes it has no container, like the cgroup of a whole pod.
//
// rate() divides by the whole window even if a series covers only a part of it. The result is too
// low for a series that has ended or is younger than the window. A restart ends one series and
// starts another, and queries may return the ended one for minutes. Therefore a container counts
// only if all of its current series existed one window ago.
func cpuQuery(selector string, window time.Duration) string {
	seconds := `container_cpu_usage_seconds_total{container!="",container!="POD"` + selector + `}`
	return fmt.Sprintf(`max by (namespace, pod, container) (rate(%[1]s[%[2]s]) and %[1]s)`+
		` unless group by (namespace, pod, container) (%[1]s unless %[1]s offset %[2]s)`, seconds, model.Duration(window))
}

// memoryQuery returns the query for the highest working set in the window, in bytes.
func memoryQuery(selector string, window time.Duration) string {
	return fmt.Sprintf(`max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD"%s}[%s]))`,
		selector, model.Duration(window))
}

// scrapedQuery returns the query for the time of the last scrape, in seconds since 1970.
func scrapedQuery(selector string) string {
	return fmt.Sprintf(`max by (namespace, pod, container) (timestamp(container_memory_working_set_bytes{container!="",container!="POD"%s}))`,
		selector)
}

// query evaluates the query at the given time, or now if the time is zero.
func (p *Prometheus) query(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	value, warnings, err := p.api.Query(ctx, query, at)
	p.warn(ctx, warnings)
	if err != nil {
		return nil, p.explain(err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, p.explain(fmt.Errorf("the result is a %s, not a vector", value.Type()))
	}
	return vector, nil
}

func byContainer(vector model.Vector) map[container]float64 {
	values := make(map[container]float64, len(vector))
	for _, s := range vector {
		values[containerOf(s.Metric)] = float64(s.Value)
	}
	return values
}

func containerOf(labels model.Metric) container {
	return container{
		pod:  types.NamespacedName{Namespace: string(labels["namespace"]), Name: string(labels["pod"])},
		name: string(labels["container"]),
	}
}

func newSample(c container, at model.Time, cores, bytes float64) Sample {
	memory := int64(-1)
	if bytes >= 0 && bytes < math.MaxInt64 {
		memory = int64(bytes)
	}
	return Sample{Pod: c.pod, Container: c.name, Time: at.Time(), CPU: cores, Memory: memory}
}
