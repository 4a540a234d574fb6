// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var image = Image{
	Repository: "test",
	Tags:       []string{"latest"},
	Files: []File{
		{Path: "etc/passwd", Mode: 0o644, Content: "root"},
		{Path: "bin/sh", Link: "busybox", Mode: 0o777},
		{Path: "tmp", Mode: 0o1777},
		{Path: "etc/group", Mode: 0o644, Content: "root"},
	},
	Cmd:  []string{"sh"},
	User: "65532",
}

func TestLayer(t *testing.T) {
	layer, err := image.layer()
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for reader := tar.NewReader(bytes.NewReader(layer)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, header.Name)
	}
	if got, want := strings.Join(entries, " "), "etc/ etc/passwd bin/ bin/sh tmp/ etc/group"; got != want {
		t.Errorf("layer: got %q, want %q", got, want)
	}
}

func TestAnImageWithoutProgramsServesSeveralArchitectures(t *testing.T) {
	both := Image{Files: []File{{Path: "etc/passwd", Content: "root"}}, Architectures: []string{"amd64", "arm64"}}
	layer, err := both.layer()
	if err != nil {
		t.Fatal(err)
	}
	base, err := fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	index, err := both.makeIndex(base, "0a1b", layers(layer)...)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, of := range manifest.Manifests {
		platforms = append(platforms, of.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms: got %s", got)
	}
}

func TestMakeSetsPlatform(t *testing.T) {
	layer, err := image.layer()
	if err != nil {
		t.Fatal(err)
	}
	base, err := fetch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const input = "0a1b"
	made, err := image.make(base, runtime.GOARCH, input, layers(layer)...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("platform: got %s/%s", config.OS, config.Architecture)
	}
	if config.Config.Labels[inputLabel] != input || config.Config.User != "65532" {
		t.Errorf("config: got %+v", config.Config)
	}
}

func TestInputTellsImagesApart(t *testing.T) {
	layer, err := image.layer()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, cmd := range [][]string{{"sh"}, {"sh", "-c"}} {
		other := image
		other.Cmd = cmd
		for _, below := range []string{"", "registry/base@sha256:0a"} {
			for _, content := range [][]byte{layer, append([]byte("x"), layer...)} {
				input, err := other.input(below, bytes.NewReader(content))
				if err != nil {
					t.Fatal(err)
				}
				seen[input] = true
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("input: %d hashes for 8 images", len(seen))
	}
}

func TestReference(t *testing.T) {
	hash := "sha256:" + strings.Repeat("0a", 32)
	text := "image: 10.250.0.1:5000/tekton/controller@" + hash + "\nargs: [10.250.0.1:5000/x, example.org/y@" + hash + "]"
	if got := reference.FindAllString(text, -1); len(got) != 1 || got[0] != "10.250.0.1:5000/tekton/controller@"+hash {
		t.Errorf("references: got %q", got)
	}
}

func TestAReleaseIsBuiltOfWhatItsYAMLNames(t *testing.T) {
	const yaml = "image: ko://example.test/m/cmd/webhook\nargs: [-image, ko://example.test/m/cmd/nop, -x]\nother: ko://example.test/m/cmd/webhook\n"
	var names []string
	for _, program := range group("release", yaml).Programs {
		names = append(names, program.Package)
	}
	if got, want := strings.Join(names, " "), "example.test/m/cmd/nop example.test/m/cmd/webhook"; got != want {
		t.Errorf("programs: got %q, want %q", got, want)
	}
}

func TestWhatAReleaseIsWithoutIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"a.yaml", "events.yaml", "resolvers/b.yaml", "more/c.yaml", "more/events.yaml", "dummy.go"} {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Release{Without: []string{"resolvers", "events.yaml"}}.files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.ReplaceAll(strings.Join(files, " "), dir+"/", ""), "a.yaml more/c.yaml more/events.yaml"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
}
