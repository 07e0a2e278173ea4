// Benchtable reads the output of go test -bench and prints one table: each figure
// of Upright with its aim and with the figures of its peers. While it reads, it
// prints progress and failures to standard error.
//
//	go test -run '^$' -bench . ./... | .tools/bin/benchtable
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "benchtable: %v\n", err)
		os.Exit(1)
	}
}

// run writes the table to out, and progress and failures to progress. It fails if
// a benchmark failed or if there is no result. A missed aim is not a failure,
// because machines are noisy.
func run(in io.Reader, out, progress io.Writer) error {
	results, err := read(in, progress)
	if tableErr := write(out, results); tableErr != nil {
		return tableErr
	}
	return err
}
