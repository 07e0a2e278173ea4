package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// maxResponse is the maximum size of the response to a range query in bytes. Decoding it takes
// about four times as much memory.
const maxResponse = 8 << 20

var errResponseTooLarge = errors.New("the response is too large")

// History yields the samples that Read would have returned at each time of the range, with two
// differences. Their time is the time in the range, to the millisecond. If the step is longer than
// the window, Memory is the highest value in the whole step. Unusable samples are included.
// Prometheus rejects more than 11,000 times (web/api/v1/api.go, queryRange).
func (p *Prometheus) History(ctx context.Context, namespace, pods string, span Range) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		if span.To.Before(span.From) {
			return
		}
		cpu, memory, err := p.queryPast(ctx, namespace, pods, span)
		if err != nil {
			yield(Sample{}, err)
			return
		}
		yieldAll(cpu, memory, yield)
	}
}

// queryPast returns the CPU and memory usage in a range.
func (p *Prometheus) queryPast(ctx context.Context, namespace, pods string, span Range) (cpu, memory model.Matrix, err error) {
	if span.Step < time.Millisecond {
		return nil, nil, &Error{
			Advice: "reading history needs a step of at least one millisecond", Cause: errors.New(span.Step.String()), IsPermanent: true,
		}
	}
	selector := ",namespace=" + strconv.Quote(namespace) + ",pod=~" + strconv.Quote(pods)
	if cpu, err = p.queryRange(ctx, cpuQuery(selector, p.window), span); err != nil {
		return nil, nil, err
	}
	memory, err = p.queryRange(ctx, memoryQuery(selector, max(p.window, span.Step)), span)
	return cpu, memory, err
}

// queryRange evaluates the query at each time of the range.
func (p *Prometheus) queryRange(ctx context.Context, query string, span Range) (model.Matrix, error) {
	value, warnings, err := p.past.QueryRange(ctx, query, promv1.Range{Start: span.From, End: span.To, Step: span.Step})
	p.warn(ctx, warnings)
	if err != nil {
		return nil, p.explain(err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, p.explain(fmt.Errorf("the result is a %s, not a matrix", value.Type()))
	}
	return matrix, nil
}

// yieldAll yields a sample for each time at which a container has both CPU and memory usage, until
// yield returns false.
func yieldAll(cpu, memory model.Matrix, yield func(Sample, error) bool) {
	memoryOf := make(map[container][]model.SamplePair, len(memory))
	for _, series := range memory {
		memoryOf[containerOf(series.Metric)] = series.Values
	}
	for _, series := range cpu {
		c := containerOf(series.Metric)
		bytes := memoryOf[c]
		for _, cores := range series.Values {
			for len(bytes) > 0 && bytes[0].Timestamp < cores.Timestamp {
				bytes = bytes[1:]
			}
			if len(bytes) == 0 {
				break
			}
			if bytes[0].Timestamp == cores.Timestamp &&
				!yield(newSample(c, cores.Timestamp, float64(cores.Value), float64(bytes[0].Value)), nil) {
				return
			}
		}
	}
}

// limitResponses returns a transport whose responses fail with errResponseTooLarge when they exceed
// maxResponse.
func limitResponses(next http.RoundTripper) http.RoundTripper { return limitedTransport{next} }

type limitedTransport struct{ http.RoundTripper }

func (t limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = &limitedBody{ReadCloser: response.Body, left: maxResponse}
	}
	return response, err
}

// limitedBody is the body of a response that fails after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	if b.left -= n; b.left < 0 {
		return 0, errResponseTooLarge
	}
	return n, err
}
