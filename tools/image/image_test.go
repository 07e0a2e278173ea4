package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// source is the folder of the manager's module.
const source = "../.."

// maxCompressed is the largest size of an image, in bytes, as a user downloads it.
const maxCompressed = 30 << 20

func TestImageRunsTheManagerAsNonRootAndNamesItsVersion(t *testing.T) {
	output, digest := build(t, "")
	index, err := layout.ImageIndexFromPath(output)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index), "the OCI layout is valid")

	images := imagesOf(t, index)
	require.Len(t, images, len(architectures))
	revision, err := readRevision(t.Context(), source)
	require.NoError(t, err)
	for architecture, image := range images {
		config, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, "linux", config.OS)
		assert.Equal(t, architecture, config.Architecture)
		assert.Equal(t, "65532:65532", config.Config.User)
		assert.Equal(t, []string{"/manager"}, config.Config.Entrypoint)
		assert.Equal(t, revision.commit, config.Config.Labels["org.opencontainers.image.revision"])
		assert.Equal(t, revision.version, config.Config.Labels["org.opencontainers.image.version"])
		files := extract(t, image)
		require.Len(t, files, 1, "the image has no shell and no libraries")
		assert.Less(t, compressedSize(t, image), int64(maxCompressed))
		if architecture == runtime.GOARCH {
			assertVersion(t, files["manager"], revision)
		}
	}
	_, again := build(t, "")
	assert.Equal(t, digest, again, "two builds of a commit have the same digest")
}

func TestImageIsPushedWithItsSBOMs(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/upright:test"
	build(t, reference)
	parsed, err := name.ParseReference(reference)
	require.NoError(t, err)
	index, err := remote.Index(parsed)
	require.NoError(t, err)
	for architecture, image := range imagesOf(t, index) {
		digest, err := image.Digest()
		require.NoError(t, err)
		referrers, err := remote.Referrers(parsed.Context().Digest(digest.String()))
		require.NoError(t, err)
		manifest, err := referrers.IndexManifest()
		require.NoError(t, err)
		require.Len(t, manifest.Manifests, 1, architecture)
		bill, err := remote.Image(parsed.Context().Digest(manifest.Manifests[0].Digest.String()))
		require.NoError(t, err)
		assertSBOM(t, bill)
	}
}

// build runs the command and returns the folder of the OCI layout and the digest that it prints.
func build(t *testing.T, push string) (output, digest string) {
	t.Helper()
	output = filepath.Join(t.TempDir(), "image")
	var printed bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-source", source, "-output", output, "-push", push}, &printed))
	_, digest, found := strings.Cut(strings.SplitN(printed.String(), "\n", 2)[0], "@")
	require.True(t, found)
	return output, digest
}

// imagesOf returns the images of an index by architecture.
func imagesOf(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	// An OCI layout has an index of its own around the image's.
	if len(manifest.Manifests) == 1 && manifest.Manifests[0].MediaType.IsIndex() {
		inner, err := index.ImageIndex(manifest.Manifests[0].Digest)
		require.NoError(t, err)
		return imagesOf(t, inner)
	}
	images := map[string]v1.Image{}
	for _, descriptor := range manifest.Manifests {
		if descriptor.ArtifactType != spdx {
			image, err := index.Image(descriptor.Digest)
			require.NoError(t, err)
			images[descriptor.Platform.Architecture] = image
		}
	}
	return images
}

// extract returns the files of an image by name.
func extract(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	files := map[string][]byte{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		require.NoError(t, err)
		archive := tar.NewReader(content)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			files[header.Name], err = io.ReadAll(archive)
			require.NoError(t, err)
		}
	}
	return files
}

// assertVersion runs the binary in an empty environment, as in a container.
func assertVersion(t *testing.T, binary []byte, from revision) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager")
	require.NoError(t, os.WriteFile(path, binary, 0o700))
	command := exec.Command(path, "--version")
	command.Env = []string{}
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, string(output), from.commit)
}

func compressedSize(t *testing.T, image v1.Image) int64 {
	t.Helper()
	manifest, err := image.Manifest()
	require.NoError(t, err)
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	t.Logf("compressed: %.1f MB", float64(size)/1e6)
	return size
}

// assertSBOM asserts that an artifact lists the modules of the manager.
func assertSBOM(t *testing.T, artifact v1.Image) {
	t.Helper()
	layers, err := artifact.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	var bill document
	require.NoError(t, json.NewDecoder(content).Decode(&bill))
	versions := map[string]string{}
	for _, module := range bill.Packages {
		versions[module.Name] = module.Version
	}
	for _, module := range []string{"example.com/upright", "stdlib", "sigs.k8s.io/controller-runtime", "k8s.io/client-go"} {
		assert.NotEmpty(t, versions[module], module)
	}
}
