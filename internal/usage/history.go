package usage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// pointsPerQuery is the number of points of a range query: one day with a step of one minute.
// Prometheus rejects more than 11,000 (web/api/v1/api.go, queryRange). The response is kept in
// memory, where a point takes about 16 bytes, and 30 more while it is decoded.
const pointsPerQuery = 1440

// History yields the samples that Read would have returned at each time of the range, with two
// differences. Their time is the time in the range, to the millisecond. If the step is longer than
// the window, Memory is the highest value in the whole step. Unusable samples are included.
func (p *Prometheus) History(ctx context.Context, namespace, pods string, span Range) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		for chunk, err := range chunks(span) {
			var cpu, memory model.Matrix
			if err == nil {
				cpu, memory, err = p.queryChunk(ctx, namespace, pods, chunk)
			}
			if err != nil {
				yield(Sample{}, err)
				return
			}
			if !yieldAll(cpu, memory, yield) {
				return
			}
		}
	}
}

// chunks splits the range into parts of at most pointsPerQuery points. It yields an error if the
// step is invalid.
func chunks(span Range) iter.Seq2[promv1.Range, error] {
	return func(yield func(promv1.Range, error) bool) {
		if span.Step < time.Millisecond {
			yield(promv1.Range{}, &Error{Advice: "reading history needs a step of at least one millisecond", Cause: errors.New(span.Step.String())})
			return
		}
		for from := span.From; !from.After(span.To); from = from.Add(pointsPerQuery * span.Step) {
			to := from.Add((pointsPerQuery - 1) * span.Step)
			if to.After(span.To) {
				to = span.To
			}
			if !yield(promv1.Range{Start: from, End: to, Step: span.Step}, nil) {
				return
			}
		}
	}
}

// queryChunk returns the CPU and memory usage in a part of the range.
func (p *Prometheus) queryChunk(ctx context.Context, namespace, pods string, chunk promv1.Range) (cpu, memory model.Matrix, err error) {
	selector := ",namespace=" + strconv.Quote(namespace) + ",pod=~" + strconv.Quote(pods)
	if cpu, err = p.queryRange(ctx, cpuQuery(selector, p.window), chunk); err != nil {
		return nil, nil, err
	}
	memory, err = p.queryRange(ctx, memoryQuery(selector, max(p.window, chunk.Step)), chunk)
	return cpu, memory, err
}

// queryRange evaluates the query at each time of the chunk.
func (p *Prometheus) queryRange(ctx context.Context, query string, chunk promv1.Range) (model.Matrix, error) {
	value, _, err := p.api.QueryRange(ctx, query, chunk)
	if err != nil {
		return nil, p.explain(err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, p.explain(fmt.Errorf("the result is a %s, not a matrix", value.Type()))
	}
	return matrix, nil
}

// yieldAll yields a sample for each time at which a container has both CPU and memory usage. It
// returns false if yield does.
func yieldAll(cpu, memory model.Matrix, yield func(Sample, error) bool) bool {
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
				return false
			}
		}
	}
	return true
}
