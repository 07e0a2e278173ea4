// Benchtable reads what go test -bench prints and puts Upright's figures in one
// table, beside the aims and the figures of its peers. While it reads, it passes
// on what is not a result, so that a failure is seen when it happens.
//
//	go test -run '^$' -bench . ./... | go run ./e2e/benchtable
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

// run writes the table to out, and progress and failures to progress. It fails
// when its input does, and where there is nothing to show; an aim that is missed
// is shown and no failure, since machines are noisy.
func run(in io.Reader, out, progress io.Writer) error {
	results, err := read(in, progress)
	if tableErr := write(out, results); tableErr != nil {
		return tableErr
	}
	return err
}
