// Package process finds and ends processes by their command lines.
//
// The processes of a cluster are daemons: they can outlive the process that started
// them, and do not share a process group. But the command line of each of them
// contains the folder of the cluster.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollInterval is how often End checks which processes still run.
const pollInterval = 20 * time.Millisecond

// Match reports whether a process matches, by its command line.
type Match func(args []string) bool

// Mentions matches processes with an argument that contains the text.
func Mentions(text string) Match {
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, text) })
	}
}

// Runs matches processes of a program with an argument that contains a path in the folder.
func Runs(program, folder string) Match {
	mentions := Mentions(folder + "/")
	return func(args []string) bool { return filepath.Base(args[0]) == program && mentions(args) }
}

// Find returns the ids of the matching processes, without this one.
func Find(match Match) ([]int, error) {
	commands, err := list()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var ids []int
	for id, args := range commands {
		if id != os.Getpid() && match(args) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// End sends SIGTERM to the matching processes, and SIGKILL to those that still run
// after the grace period. It returns when no matching process runs any more.
func End(ctx context.Context, match Match, grace time.Duration) error {
	deadline := time.Now().Add(grace)
	terminated := map[int]bool{}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ids, err := Find(match)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := signal(id, terminated, deadline); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ending processes %v: %w", ids, ctx.Err())
		case <-tick.C:
		}
	}
}

// signal sends SIGTERM to a process once, and SIGKILL after the deadline.
func signal(id int, terminated map[int]bool, deadline time.Time) error {
	sig := syscall.SIGTERM
	switch {
	case time.Now().After(deadline):
		sig = syscall.SIGKILL
	case terminated[id]:
		return nil
	}
	terminated[id] = true
	if err := syscall.Kill(id, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", sig, id, err)
	}
	return nil
}

// list returns the command lines of all processes, except for zombies, which have none.
func list() (map[int][]string, error) {
	if _, err := os.Stat("/proc/self/cmdline"); err == nil {
		return listProc()
	}
	return listPS()
}

func listProc() (map[int][]string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	commands := map[int][]string{}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || len(line) == 0 {
			continue // The process has ended.
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		commands[id] = strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
	}
	return commands, nil
}

func listPS() (map[int][]string, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		return nil, err
	}
	commands := map[int][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		commands[id] = fields[1:]
	}
	return commands, nil
}
