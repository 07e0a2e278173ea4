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

func table(t *testing.T, input string) (out, progress string, err error) {
	t.Helper()
	var outBuffer, progressBuffer bytes.Buffer
	err = run(strings.NewReader(input), &outBuffer, &progressBuffer)
	return outBuffer.String(), progressBuffer.String(), err
}

func row(t *testing.T, table, label string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if cells, found := strings.CutPrefix(line, label); found {
			return strings.Fields(cells)
		}
	}
	require.Fail(t, "no such row", "%q in\n%s", label, table)
	return nil
}

func TestTableShowsMediansBesideAimsAndPeers(t *testing.T) {
	out, progress, err := table(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10000 6 µs at most 10 µs yes 66 ms full list"),
		row(t, out, "A Deployment's event to its scalers, by the index"))
	assert.Equal(t, strings.Fields("10000 0 0 yes -"), row(t, out, "  API requests in all"))
	assert.Contains(t, out, "medians of up to 3 runs")
	assert.NotContains(t, out, "short form")
	assert.Equal(t, "measured BenchmarkDeploymentEvent/scalers=10000/index-2", strings.Split(progress, "\n")[0])
	assert.NotContains(t, progress, "ok ")
}

func TestMissedAimIsShownAndIsNoFailure(t *testing.T) {
	out, _, err := table(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10000 2 KiB at most 1.5 KiB NO 5.9 to 7.6 KiB whole Deployments"),
		row(t, out, "Heap per cached Deployment that Upright does not own"))
}

func TestBenchmarkWithoutARowOfItsOwnIsShown(t *testing.T) {
	out, _, err := table(t, goodRun)
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("- 2.5 µs - - -"), row(t, out, "Other, sec/op"))
	assert.Equal(t, strings.Fields("- 12.5 - - -"), row(t, out, "Other, things"))
}

func TestEachNumberOfObjectsHasARowOfItsOwn(t *testing.T) {
	out, _, err := table(t, "BenchmarkRead/pods=10-2 1 1000 ns/op\nBenchmarkRead/pods=20-2 1 3000 ns/op\n")
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10 1 µs - - -"), row(t, out, "Read/pods, sec/op"))
	_, after, _ := strings.Cut(out, "1 µs")
	assert.Equal(t, strings.Fields("20 3 µs - - -"), row(t, after, "Read/pods, sec/op"))
	assert.NotContains(t, out, "medians")
}

func TestShortFormIsSaidToBeOne(t *testing.T) {
	out, _, err := table(t, "BenchmarkOwners/objects=10-2 1 2.5 max-writes/object 3.5 writes/object\n")
	require.NoError(t, err)

	assert.Equal(t, strings.Fields("10 2.5 at most 3 yes -"), row(t, out, "  the most for any one object"))
	assert.Contains(t, out, "  NO (short)  ")
	assert.Contains(t, out, "This is a short form")
}

func TestInputThatFailsFailsAndIsPassedOn(t *testing.T) {
	for name, input := range map[string]string{
		"a benchmark": goodRun + "BenchmarkBurst/objects=20-2 \t--- FAIL: BenchmarkBurst/objects=20-2\n    burst_test.go:7: too late\n",
		"a package":   goodRun + "FAIL\texample.com/upright/e2e/bench\t3.0s\n    too late\n",
		"a build":     "# example.com/upright/e2e/bench\ntoo late\nFAIL\texample.com/upright/e2e/bench [build failed]\n" + goodRun,
	} {
		t.Run(name, func(t *testing.T) {
			out, progress, err := table(t, input)

			require.ErrorContains(t, err, "the benchmarks failed")
			assert.Contains(t, progress, "FAIL")
			assert.Contains(t, progress, "too late")
			assert.Contains(t, out, "by the index", "what was measured is shown all the same")
		})
	}
}

func TestInputWithoutAResultFails(t *testing.T) {
	out, _, err := table(t, "PASS\nok  \texample.com/upright/apis\t0.1s\n")

	require.ErrorContains(t, err, "no benchmark result")
	assert.Empty(t, out)
}

func TestResultThatSomethingElseWroteIntoFails(t *testing.T) {
	_, _, err := table(t, goodRun+"BenchmarkBurst/objects=20-2 \tW0101 a library's log\n")

	require.ErrorContains(t, err, "parsing iteration count")
}
