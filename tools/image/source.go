package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// manager is the package whose binary is in the image.
const manager = "./cmd/manager"

// revision is the commit that an image is built from.
type revision struct {
	commit  string
	version string // The tag of the commit, or what git describe prints for it.
	time    time.Time
}

// readRevision returns the commit that is checked out. Its time is the time of everything in the
// image, so that two builds of a commit have the same digest.
func readRevision(ctx context.Context, source string) (revision, error) {
	output, err := command(ctx, source, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return revision{}, err
	}
	commit, seconds, _ := strings.Cut(output, " ")
	committed, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return revision{}, fmt.Errorf("parse the time of commit %s: %w", commit, err)
	}
	version, err := command(ctx, source, "git", "describe", "--tags", "--always", "--dirty")
	if err != nil {
		return revision{}, err
	}
	return revision{commit: commit, version: version, time: time.Unix(committed, 0).UTC()}, nil
}

// buildBinary builds the static binary of the manager for an architecture and returns its path in
// a folder.
func buildBinary(ctx context.Context, source, folder, architecture string) (string, error) {
	path := filepath.Join(folder, "manager-"+architecture)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags", "-s -w", "-o", path, manager)
	build.Dir = source
	build.Env = append(environment(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the manager for %s: %w\n%s", architecture, err, output)
	}
	return path, nil
}

// environment returns the environment of commands. Git refuses to read a repository of another user,
// which is usual where a build runs in a container.
func environment() []string {
	return append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
}

// command runs a command in a folder and returns its output without surrounding space.
func command(ctx context.Context, folder, name string, args ...string) (string, error) {
	run := exec.CommandContext(ctx, name, args...)
	run.Dir, run.Env = folder, environment()
	output, err := run.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, args[0], err)
	}
	return strings.TrimSpace(string(output)), nil
}
