package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	entrypoint = "/manager"
	// nonRoot is the user and the group of the manager. It is the one that distroless images use.
	nonRoot = "65532:65532"
)

// architectures of the image. Kubernetes itself is released for more, but few clusters use them.
var architectures = []string{"amd64", "arm64"}

// buildIndex returns an index with an image for each architecture, and with an SBOM that refers to
// each image.
func buildIndex(ctx context.Context, source string, from revision) (v1.ImageIndex, error) {
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the binaries: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A temporary folder that stays does no harm.

	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		binary, err := buildBinary(ctx, source, folder, architecture)
		if err != nil {
			return nil, err
		}
		image, err := newImage(binary, architecture, from)
		if err != nil {
			return nil, fmt.Errorf("create the image for %s: %w", architecture, err)
		}
		bill, err := newSBOM(binary, image, from)
		if err != nil {
			return nil, fmt.Errorf("create the SBOM for %s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}},
			mutate.IndexAddendum{Add: bill, Descriptor: v1.Descriptor{ArtifactType: spdx}})
	}
	annotated, ok := mutate.Annotations(index, labels(from)).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotate the index: not an index")
	}
	return annotated, nil
}

// newImage returns an image that contains only a binary. It has no shell and no libraries.
func newImage(binary, architecture string, from revision) (v1.Image, error) {
	layer, err := newLayer(binary, from)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: from.time}, CreatedBy: "tools/image", Comment: "the manager",
	}})
	if err != nil {
		return nil, fmt.Errorf("add the binary: %w", err)
	}
	return mutate.ConfigFile(image, configOf(image, architecture, from))
}

// configOf returns the configuration of an image with the layers that it has.
func configOf(image v1.Image, architecture string, from revision) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil { // An image in memory has its configuration.
		panic(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: from.time}
	config.Config = v1.Config{Entrypoint: []string{entrypoint}, User: nonRoot, Labels: labels(from), WorkingDir: "/"}
	return config
}

// labels returns the predefined annotations of the OCI image specification.
func labels(from revision) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "upright",
		"org.opencontainers.image.version":  from.version,
		"org.opencontainers.image.revision": from.commit,
		"org.opencontainers.image.created":  from.time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// newLayer returns a layer with a binary as the entrypoint. Its content depends only on the binary
// and on the commit.
func newLayer(binary string, from revision) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	header := &tar.Header{Name: entrypoint[1:], Typeflag: tar.TypeReg, Mode: 0o555, Size: int64(len(content)), ModTime: from.time}
	if err := writer.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("archive the binary: %w", err)
	}
	if _, err := writer.Write(content); err != nil {
		return nil, fmt.Errorf("archive the binary: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("archive the binary: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// newSBOM returns an artifact with the SBOM of a binary that refers to its image.
func newSBOM(binary string, image v1.Image, from revision) (v1.Image, error) {
	bill, err := describe(binary, from)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdx)
	artifact, err := mutate.AppendLayers(base, static.NewLayer(bill, spdx))
	if err != nil {
		return nil, fmt.Errorf("add the SBOM: %w", err)
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	referring, ok := mutate.Subject(artifact, *subject).(v1.Image)
	if !ok {
		return nil, errors.New("refer to the image: not an image")
	}
	return referring, nil
}
