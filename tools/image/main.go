// The image command builds the manager's container image for several platforms, without a
// container runtime: as an OCI layout, and on request in a registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run builds the image, writes the OCI layout, and pushes the image if a reference is given.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	source := flags.String("source", ".", "folder of the Go module of the manager")
	output := flags.String("output", "dist/image", "folder of the OCI layout; an existing one is replaced")
	push := flags.String("push", "", "reference to push the image to, for example registry.example.com/upright:v0.2.0")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	revision, err := readRevision(ctx, *source)
	if err != nil {
		return err
	}
	index, err := buildIndex(ctx, *source, revision)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(*output); err != nil {
		return fmt.Errorf("remove the previous OCI layout: %w", err)
	}
	if _, err := layout.Write(*output, index); err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("compute the digest of the image: %w", err)
	}
	fmt.Fprintf(out, "%s@%s\n", *output, digest)
	if *push == "" {
		return nil
	}
	reference, err := name.ParseReference(*push)
	if err != nil {
		return fmt.Errorf("parse the reference: %w", err)
	}
	if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push the image to %s: %w", reference, err)
	}
	fmt.Fprintf(out, "%s@%s\n", reference, digest)
	return nil
}
