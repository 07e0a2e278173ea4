package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultWindow is the time that CPU usage is averaged over, as in kubernetes-mixin's recording
// rule node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m.
const DefaultWindow = 5 * time.Minute

// PrometheusConfig says which usage to read from which Prometheus.
type PrometheusConfig struct {
	// URL is the address of its HTTP API, without /api/v1. It may carry a user and a password.
	URL string
	// Client sends the requests; nil stands for one without a time limit of its own.
	Client *http.Client
	// Window is the time that CPU usage is averaged over. It must be longer than two scrapes of
	// a kubelet are apart. Less than a millisecond stands for DefaultWindow.
	Window time.Duration
	// Namespaces are those whose pods Read reads; none stands for all.
	Namespaces []string
}

// Prometheus reads what Prometheus has scraped from the kubelets' cAdvisor endpoint, the metrics
// container_cpu_usage_seconds_total and container_memory_working_set_bytes with the labels
// namespace, pod and container. Of a container that has several series of a metric (before and
// after a restart, or scraped twice) the greatest counts. Pod sandboxes and the cgroups of whole
// pods are left out.
//
// So that a short peak between two reads counts, Memory is the highest working set scraped in
// the window. CPU is averaged over the whole window, so that a container has no sample until it
// has been scraped for that long.
type Prometheus struct {
	api        promv1.API
	address    string // without the password
	window     time.Duration
	namespaces []string
}

// NewPrometheus returns a source and historian, or an error if the URL is none.
func NewPrometheus(config PrometheusConfig) (*Prometheus, error) {
	address, err := url.Parse(config.URL)
	if err != nil {
		return nil, fmt.Errorf("the Prometheus URL is none: %w", err)
	}
	if address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return nil, fmt.Errorf("the Prometheus URL %q must have the form http://host:port or https://host:port", address.Redacted())
	}
	client, err := api.NewClient(api.Config{Address: config.URL, Client: config.Client})
	if err != nil {
		return nil, fmt.Errorf("make a client of Prometheus: %w", err)
	}
	window := config.Window.Truncate(time.Millisecond)
	if window <= 0 {
		window = DefaultWindow
	}
	return &Prometheus{
		api:        promv1.NewAPI(client),
		address:    address.Redacted(),
		window:     window,
		namespaces: config.Namespaces,
	}, nil
}

// Read returns the newest sample of every container that has been scraped for a window. Its time
// is that of the last scrape. No samples and no error means that Prometheus knows of no such
// container: perhaps it scrapes no kubelet. The error is an ErrUnavailable unless Prometheus
// refuses the query.
func (p *Prometheus) Read(ctx context.Context) ([]Sample, error) {
	selector := ""
	if len(p.namespaces) > 0 {
		selector = ",namespace=~" + strconv.Quote(strings.Join(p.namespaces, "|"))
	}
	cpu, err := p.query(ctx, cpuQuery(selector, p.window), time.Time{})
	if err != nil || len(cpu) == 0 {
		return nil, err
	}
	at := cpu[0].Timestamp.Time() // by the clock of Prometheus, and the same for all queries
	memory, err := p.query(ctx, memoryQuery(selector, p.window), at)
	if err != nil {
		return nil, err
	}
	scraped, err := p.query(ctx, scrapedQuery(selector), at)
	if err != nil {
		return nil, err
	}
	return join(cpu, byContainer(memory), byContainer(scraped), p.window), nil
}

// join returns a sample of each container that is in all three answers.
func join(cpu model.Vector, memory, scraped map[container]float64, window time.Duration) []Sample {
	samples := make([]Sample, 0, len(cpu))
	for _, s := range cpu {
		of := containerOf(s.Metric)
		bytes, hasMemory := memory[of]
		seconds, hasTime := scraped[of]
		if hasMemory && hasTime {
			at := model.Time(math.Round(seconds * 1000))
			samples = append(samples, newSample(of, at, float64(s.Value), bytes, window))
		}
	}
	return samples
}

// cpuQuery is the CPU usage in cores, averaged over the window. The selector is further label
// matchers, each after a comma. Pod sandboxes have the container "POD" with some runtimes, and
// none with others, like the cgroups of whole pods.
//
// Prometheus divides by the whole window what it saw in a part of it, which is too little of a
// series that has ended or is younger. A restart ends one series and begins another, and the first
// may be found for minutes after its end, so that a container counts when all of its series that
// are there now were there a window ago.
func cpuQuery(selector string, window time.Duration) string {
	seconds := `container_cpu_usage_seconds_total{container!="",container!="POD"` + selector + `}`
	return fmt.Sprintf(`max by (namespace, pod, container) (rate(%[1]s[%[2]s]) and %[1]s)`+
		` unless group by (namespace, pod, container) (%[1]s unless %[1]s offset %[2]s)`, seconds, model.Duration(window))
}

// memoryQuery is the highest working set in the window, in bytes.
func memoryQuery(selector string, window time.Duration) string {
	return fmt.Sprintf(`max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD"%s}[%s]))`,
		selector, model.Duration(window))
}

// scrapedQuery is the time of the last scrape, in seconds since 1970.
func scrapedQuery(selector string) string {
	return fmt.Sprintf(`max by (namespace, pod, container) (timestamp(container_memory_working_set_bytes{container!="",container!="POD"%s}))`,
		selector)
}

// query evaluates the query at a time, or now if that is zero.
func (p *Prometheus) query(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	value, _, err := p.api.Query(ctx, query, at)
	if err != nil {
		return nil, p.explain(err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, p.explain(fmt.Errorf("the answer is a %s, not a vector", value.Type()))
	}
	return vector, nil
}

// explain returns the error of a request with what to do about it.
func (p *Prometheus) explain(err error) error {
	unavailable := func(advice string) error {
		return &Error{Unavailable: true, Cause: err, Advice: "Prometheus at " + p.address + " " + advice}
	}
	var network net.Error // and *url.Error, so every failure to get an answer
	var answer *promv1.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("read Prometheus at %s: %w", p.address, err)
	case errors.As(err, &network) && network.Timeout():
		return unavailable("does not answer in time, see how busy it is")
	case errors.As(err, &network):
		return unavailable("cannot be reached, check --prometheus-url and the network in between")
	case errors.As(err, &answer) && (answer.Type == promv1.ErrBadData || answer.Type == promv1.ErrExec):
		return &Error{Cause: err, Advice: "Prometheus at " + p.address + " refuses the query, see its limits (--query.max-samples) and its log"}
	case errors.As(err, &answer) && (answer.Type == promv1.ErrServer || answer.Type == promv1.ErrTimeout || answer.Type == promv1.ErrCanceled):
		return unavailable("is failing, see its log and its /-/ready page")
	case errors.As(err, &answer) && answer.Type == promv1.ErrClient:
		return unavailable("does not let itself be queried, check that --prometheus-url is its address and that its API may be read")
	default:
		return unavailable("answers with something other than its API does, check that --prometheus-url is its address")
	}
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

func newSample(of container, at model.Time, cores, bytes float64, window time.Duration) Sample {
	memory := int64(-1)
	if bytes >= 0 && bytes < math.MaxInt64 {
		memory = int64(bytes)
	}
	return Sample{Pod: of.pod, Container: of.name, Time: at.Time(), CPU: cores, Memory: memory, Window: window}
}
