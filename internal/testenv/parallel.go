package testenv

import (
	"flag"
	"fmt"
)

// parallel is how many tests of a package run at a time. They wait for the API server most of the
// time, so the default of one per core would leave the cores idle.
const parallel = "6"

// SetParallel sets how many tests run at a time, unless the command line does.
func SetParallel(tests string) error {
	if !flag.Parsed() {
		flag.Parse()
	}
	const name = "test.parallel"
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == name })
	if isSet {
		return nil
	}
	if err := flag.Set(name, tests); err != nil {
		return fmt.Errorf("set the number of parallel tests: %w", err)
	}
	return nil
}
