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

// key identifies a measure. The benchmark's name does not contain the number of objects:
// it is DeploymentEvent/scalers/index for DeploymentEvent/scalers=500/index-2.
type key struct{ benchmark, unit string }

// series identifies the figures of one measure for one number of objects.
type series struct {
	key
	objects int
}

// results are the figures of one run of go test.
type results struct {
	order   []series // In the order of the input.
	figures map[series][]float64
}

// read reads benchmark results, and writes what happens to progress. If it returns an
// error, it also returns the results that it could read.
func read(in io.Reader, progress io.Writer) (*results, error) {
	lines, failed, err := split(in, progress)
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
		return r, errors.New("the input contains no benchmark result")
	default:
		return r, nil
	}
}

// split returns the lines with results, and whether any other line reports a failure. It
// writes to progress the name of each benchmark, and the lines that are neither a result
// nor routine.
func split(in io.Reader, progress io.Writer) (lines []byte, failed bool, err error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20) // A failure can quote whole objects.
	for scanner.Scan() {
		line := scanner.Text()
		isFailure := strings.HasPrefix(line, "FAIL") || strings.Contains(line, "--- FAIL: ")
		failed = failed || isFailure
		switch {
		case strings.HasPrefix(line, "Benchmark") && !isFailure:
			lines = append(append(lines, line...), '\n')
			fmt.Fprintln(progress, "measured", strings.Fields(line)[0])
		case isFailure || !isRoutine(line):
			fmt.Fprintln(progress, line)
		}
	}
	return lines, failed, scanner.Err()
}

// isRoutine reports whether go test prints the line for every package, failed or not.
func isRoutine(line string) bool {
	for _, prefix := range []string{"goos: ", "goarch: ", "pkg: ", "cpu: ", "PASS", "ok ", "? "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return strings.HasSuffix(line, "[no test files]") || strings.TrimSpace(line) == ""
}

// parse parses lines with results.
func parse(lines []byte) (*results, error) {
	r := &results{figures: map[series][]float64{}}
	reader := benchfmt.NewReader(bytes.NewReader(lines), "the results")
	var syntaxErr error
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			r.add(record)
		case *benchfmt.SyntaxError:
			syntaxErr = errors.Join(syntaxErr, record)
		}
	}
	return r, errors.Join(syntaxErr, reader.Err())
}

// add adds one line of results.
func (r *results) add(result *benchfmt.Result) {
	benchmark, objects := parseName(result.Name)
	for _, value := range result.Values {
		s := series{key{benchmark, value.Unit}, objects}
		if !slices.Contains(r.order, s) {
			r.order = append(r.order, s)
		}
		r.figures[s] = append(r.figures[s], value.Value)
	}
}

// median returns the median of a series and the number of its figures.
func (r *results) median(s series) (figure float64, count int) {
	figures := slices.Sorted(slices.Values(r.figures[s]))
	count = len(figures)
	return (figures[(count-1)/2] + figures[count/2]) / 2, count
}

// parseName splits a benchmark's name into the name itself and the number of objects. It
// drops the number of processors.
func parseName(name benchfmt.Name) (benchmark string, objects int) {
	base, parts := name.Parts()
	names := []string{string(base)}
	for _, part := range parts {
		text, value, hasValue := strings.Cut(string(part), "=")
		if n, err := strconv.Atoi(value); hasValue && err == nil {
			objects = n
		}
		if !strings.HasPrefix(text, "-") {
			names = append(names, text)
		}
	}
	return strings.Join(names, ""), objects
}
