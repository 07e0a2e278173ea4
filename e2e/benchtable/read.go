package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// key says what was measured, with the number of objects taken out of the
// benchmark's name: DeploymentEvent/scalers/index for DeploymentEvent/scalers=500/index-2.
type key struct{ benchmark, unit string }

// series are the figures of one measure with one number of objects.
type series struct {
	key
	objects int
}

// results are the figures of one run of go test.
type results struct {
	order   []series
	figures map[series][]float64
}

// read reads benchmark results and passes on to progress whatever else there is.
// With an error, the results are those that there are all the same.
func read(in io.Reader, progress io.Writer) (*results, error) {
	lines, failed, err := sift(in, progress)
	if err != nil {
		return &results{}, fmt.Errorf("reading the input: %w", err)
	}
	r, err := parse(lines)
	switch {
	case err != nil:
		return r, fmt.Errorf("reading benchmark results: %w", err)
	case failed:
		return r, errors.New("the benchmarks failed")
	case len(r.order) == 0:
		return r, errors.New("there is no benchmark result in the input")
	default:
		return r, nil
	}
}

// sift returns the lines with results, of which it tells progress in short, and
// whether a failure was among the others, of which it passes on what go test does
// not print in any case.
func sift(in io.Reader, progress io.Writer) (lines []byte, failed bool, err error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20) // A failure may quote whole objects.
	for scanner.Scan() {
		line := scanner.Text()
		failure := strings.HasPrefix(line, "FAIL") || strings.Contains(line, "--- FAIL: ")
		failed = failed || failure
		switch {
		case strings.HasPrefix(line, "Benchmark") && !failure:
			lines = append(append(lines, line...), '\n')
			fmt.Fprintln(progress, "measured", strings.Fields(line)[0])
		case failure || !isRoutine(line):
			fmt.Fprintln(progress, line)
		}
	}
	return lines, failed, scanner.Err()
}

// isRoutine reports whether go test prints the line for any package, whatever came of it.
func isRoutine(line string) bool {
	for _, prefix := range []string{"goos: ", "goarch: ", "pkg: ", "cpu: ", "PASS", "ok ", "? "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return strings.HasSuffix(line, "[no test files]") || strings.TrimSpace(line) == ""
}

// parse reads lines with results.
func parse(lines []byte) (*results, error) {
	r := &results{figures: map[series][]float64{}}
	reader := benchfmt.NewReader(bytes.NewReader(lines), "the results")
	var unreadable error
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			r.add(record)
		case *benchfmt.SyntaxError:
			unreadable = errors.Join(unreadable, record)
		}
	}
	return r, errors.Join(unreadable, reader.Err())
}

// add takes in one line of results.
func (r *results) add(result *benchfmt.Result) {
	benchmark, objects := parseName(result.Name)
	for _, value := range result.Values {
		of := series{key{benchmark, value.Unit}, objects}
		if !slices.Contains(r.order, of) {
			r.order = append(r.order, of)
		}
		r.figures[of] = append(r.figures[of], value.Value)
	}
}

// median returns the median of a series, and how many figures it has.
func (r *results) median(of series) (figure float64, count int) {
	figures := slices.Sorted(slices.Values(r.figures[of]))
	count = len(figures)
	return (figures[(count-1)/2] + figures[count/2]) / 2, count
}

// parseName takes the number of objects, and the number of processors, out of a benchmark's name.
func parseName(name benchfmt.Name) (benchmark string, objects int) {
	base, parts := name.Parts()
	names := []string{string(base)}
	for _, part := range parts {
		text, value, counted := strings.Cut(string(part), "=")
		if n, err := strconv.Atoi(value); counted && err == nil {
			objects = n
		}
		if !strings.HasPrefix(text, "-") {
			names = append(names, text)
		}
	}
	return strings.Join(names, ""), objects
}
