package e2e_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"example.com/upright/internal/usage"
)

const (
	// pastStep is the time between two scrapes, and pastSteps the number of scrapes after the first one:
	// three days, so that one query is not enough.
	pastStep  = time.Minute
	pastSteps = 3 * 24 * 60

	// An outage begins at this step and lasts for this number of steps.
	outage, outageSteps = 2000, 90

	// A second container uses one core at all times. It runs for this number of steps, with a restart
	// in the middle.
	restartedSteps = 60
)

// past is the usage of a container on the days before the test.
type past struct {
	pod    types.NamespacedName
	from   time.Time
	cores  []float64 // Between each step and the step before it.
	memory []int64
}

// newPast returns random usage that is the same in every run.
func newPast(namespace string) *past {
	random := rand.New(rand.NewPCG(1, 2))
	p := &past{
		pod:  types.NamespacedName{Namespace: namespace, Name: "past-0"},
		from: time.Now().UTC().Truncate(time.Hour).Add(-time.Hour - pastSteps*pastStep),
	}
	for range pastSteps + 1 {
		p.cores = append(p.cores, 2*random.Float64())
		p.memory = append(p.memory, random.Int64N(4<<30))
	}
	return p
}

func (p *past) at(step int) time.Time { return p.from.Add(time.Duration(step) * pastStep) }

// scraped reports whether there are metrics for a step.
func (p *past) scraped(step int) bool {
	return step >= 0 && step <= pastSteps && (step < outage || step >= outage+outageSteps)
}

// samples returns the expected samples with a window of two steps, for a container that ran before the
// window: the CPU usage between two scrapes, and the higher memory usage of the two.
func (p *past) samples() []usage.Sample {
	var samples []usage.Sample
	for step := range pastSteps + 1 {
		if p.scraped(step-2) && p.scraped(step-1) && p.scraped(step) {
			samples = append(samples, usage.Sample{
				Pod: p.pod, Container: "app", Time: p.at(step),
				CPU: p.cores[step], Memory: max(p.memory[step-1], p.memory[step]),
			})
		}
	}
	return samples
}

// write writes the past in the form of cAdvisor's metrics: for the container, for its pod's sandbox and
// for the cgroup of the whole pod. The second container has an id that changes with its restart.
func (p *past) write(w io.Writer) error {
	for _, container := range []string{"app", "POD", ""} {
		labels := fmt.Sprintf(`namespace=%q,pod=%q,container=%q`, p.pod.Namespace, p.pod.Name, container)
		seconds := 1e6
		for step := range pastSteps + 1 {
			seconds += p.cores[step] * pastStep.Seconds()
			if !p.scraped(step) {
				continue
			}
			if err := writeScrape(w, labels, seconds, p.memory[step], p.at(step)); err != nil {
				return err
			}
		}
	}
	for step := range restartedSteps {
		life, age := 2*step/restartedSteps, step%(restartedSteps/2)
		labels := fmt.Sprintf(`namespace=%q,pod="restarted-0",container="app",id="%d"`, p.pod.Namespace, life)
		if err := writeScrape(w, labels, float64(age)*pastStep.Seconds(), 1<<30, p.at(step)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "# EOF")
	return err
}

// writeScrape writes the metrics of a container from one scrape.
func writeScrape(w io.Writer, labels string, seconds float64, memory int64, at time.Time) error {
	_, err := fmt.Fprintf(w, "container_cpu_usage_seconds_total{%s} %f %d\ncontainer_memory_working_set_bytes{%s} %d %d\n",
		labels, seconds, at.Unix(), labels, memory, at.Unix())
	return err
}
