package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodRun = `goos: linux
pkg: example.com/upright/controllers
BenchmarkDeploymentEvent/scalers=10000/index-2         	  200000	      4000 ns/op	         0 API-requests	     900 B/op	       9 allocs/op
BenchmarkDeploymentEvent/scalers=10000/index-2         	  200000	     14000 ns/op	         0 API-requests	     900 B/op	       9 allocs/op
BenchmarkDeploymentEvent/scalers=10000/index-2         	  200000	      6000 ns/op	         0 API-requests	     900 B/op	       9 allocs/op
BenchmarkCachedDeployment/deployments=10000/upright-2  	       1	      2048 B/deployment
PASS
ok  	example.com/upright/controllers	12.3s
?   	example.com/upright/apis	[no test files]
pkg: example.com/upright/e2e/bench
BenchmarkOther-2   	       1	      2500 ns/op	      12.5 things
PASS
ok  	example.com/upright/e2e/bench	2.0s
`

func runTable(t *testing.T, input string) (out, progress string, err error) {
	t.Helper()
	var outBuffer, progressBuffer bytes.Buffer
	err = run(strings.NewReader(input), &outBuffer, &progressBuffer)
	return outBuffer.String(), progressBuffer.String(), err
}

func cellsOf(t *testing.T, table, label string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if cells, found := strings.CutPrefix(line, label); found {
			return strings.Fields(cells)
		}
	}
	require.Fail(t, "the table has no such row", "%q in\n%s", label, table)
	return nil
}

func TestTableShowsMediansBesideAimsAndPeers(t *testing.T) {
	out, progress, err := runTable(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10000 6 µs at most 10 µs yes 66 ms full list"),
		cellsOf(t, out, "Mapping a Deployment's event to its scalers, with the index"))
	assert.Equal(t, strings.Fields("10000 0 0 yes -"), cellsOf(t, out, "  API requests in total"))
	assert.Contains(t, out, "medians of up to 3 runs")
	assert.NotContains(t, out, "short form")
	assert.Equal(t, "measured BenchmarkDeploymentEvent/scalers=10000/index-2", strings.Split(progress, "\n")[0])
	assert.NotContains(t, progress, "ok ")
}

func TestMissedAimIsShownAndDoesNotFail(t *testing.T) {
	out, _, err := runTable(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10000 2 KiB at most 1.5 KiB NO 5.9 to 7.6 KiB whole Deployments"),
		cellsOf(t, out, "Heap per cached Deployment that Upright does not own"))
}

func TestTableShowsUnknownBenchmarks(t *testing.T) {
	out, _, err := runTable(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("- 2.5 µs - - -"), cellsOf(t, out, "Other, sec/op"))
	assert.Equal(t, strings.Fields("- 12.5 - - -"), cellsOf(t, out, "Other, things"))
}

func TestTableHasOneRowPerNumberOfObjects(t *testing.T) {
	out, _, err := runTable(t, "BenchmarkRead/pods=10-2 1 1000 ns/op\nBenchmarkRead/pods=20-2 1 3000 ns/op\n")
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10 1 µs - - -"), cellsOf(t, out, "Read/pods, sec/op"))
	_, after, _ := strings.Cut(out, "1 µs")
	assert.Equal(t, strings.Fields("20 3 µs - - -"), cellsOf(t, after, "Read/pods, sec/op"))
	assert.NotContains(t, out, "medians")
}

func TestTableMarksTheShortForm(t *testing.T) {
	out, _, err := runTable(t, "BenchmarkOwners/objects=10-2 1 2.5 max-writes/object 3.5 writes/object\n")
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10 2.5 at most 3 yes -"), cellsOf(t, out, "  maximum for one object"))
	assert.Contains(t, out, "  NO (short)  ")
	assert.Contains(t, out, "This is the short form")
}

func TestFailureIsPrintedAndFailsTheRun(t *testing.T) {
	for name, input := range map[string]string{
		"a benchmark": goodRun + "BenchmarkBurst/objects=20-2 \t--- FAIL: BenchmarkBurst/objects=20-2\n    burst_test.go:7: too late\n",
		"a package":   goodRun + "FAIL\texample.com/upright/e2e/bench\t3.0s\n    too late\n",
		"a build":     "# example.com/upright/e2e/bench\ntoo late\nFAIL\texample.com/upright/e2e/bench [build failed]\n" + goodRun,
	} {
		t.Run(name, func(t *testing.T) {
			out, progress, err := runTable(t, input)

			require.ErrorContains(t, err, "the benchmarks failed")
			assert.Contains(t, progress, "FAIL")
			assert.Contains(t, progress, "too late")
			assert.Contains(t, out, "with the index", "the table shows what was measured")
		})
	}
}

func TestRunFailsWithoutAResult(t *testing.T) {
	out, _, err := runTable(t, "PASS\nok  \texample.com/upright/apis\t0.1s\n")

	require.ErrorContains(t, err, "no benchmark result")
	assert.Empty(t, out)
}

func TestRunFailsIfALogIsMixedIntoAResult(t *testing.T) {
	_, _, err := runTable(t, goodRun+"BenchmarkBurst/objects=20-2 \tW0101 a library's log\n")

	require.ErrorContains(t, err, "parsing iteration count")
}
