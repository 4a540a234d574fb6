// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// A platform is one of the kubectl plugin.
type platform struct{ os, architecture string }

// pluginPlatforms are those on which kubectl is used.
var pluginPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func parsePlatforms(list string) (platforms []platform, err error) {
	for one := range strings.SplitSeq(list, ",") {
		system, architecture, ok := strings.Cut(one, "/")
		if !ok || system == "" || architecture == "" {
			return nil, fmt.Errorf("the platform %q isn't an operating system and an architecture, such as linux/amd64", one)
		}
		platforms = append(platforms, platform{system, architecture})
	}
	return platforms, nil
}

// plugin is the name of the kubectl plugin's program.
const plugin = "kubectl-entrypointer"

// program returns the name of the program on a platform.
func (p platform) program() string {
	if p.os == "windows" {
		return plugin + ".exe"
	}
	return plugin
}

// archive returns the name of a platform's archive.
func (p platform) archive(version string) string {
	ending := ".tar.gz"
	if p.os == "windows" {
		ending = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", plugin, version, p.os, p.architecture, ending)
}

// writePlugins compiles the kubectl plugin, and writes an archive for each platform and the
// manifest for krew.
func (r *release) writePlugins(ctx context.Context) error {
	beside, err := filesBeside()
	if err != nil {
		return err
	}
	binaries, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	manifest := r.krew()
	for _, p := range r.platforms {
		file := filepath.Join(binaries, p.program())
		if _, err := output(ctx, append(buildEnvironment(), "GOOS="+p.os, "GOARCH="+p.architecture),
			"go", "build", "-ldflags", "-s -w -X github.com/entrypointer/entrypointer/internal/version.linked="+r.version, "-o", file, "./cmd/"+plugin); err != nil {
			return err
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		archive, err := r.pack(p, append([]packed{{p.program(), 0o755, program}}, beside...))
		if err != nil {
			return fmt.Errorf("packing %s: %w", p.archive(r.version), err)
		}
		if err := r.write(p.archive(r.version), archive); err != nil {
			return err
		}
		manifest.add(p, r.url+"/"+p.archive(r.version), archive)
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return r.write("entrypointer.krew.yaml", text)
}

// A packed is a file in an archive.
type packed struct {
	name    string
	mode    os.FileMode
	content []byte
}

// filesBeside returns what is packed beside the program: the licence, as krew demands, and
// the script by which shells complete arguments.
func filesBeside() ([]packed, error) {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	const completion = "kubectl_complete-entrypointer"
	script, err := os.ReadFile("cmd/" + plugin + "/" + completion)
	if err != nil {
		return nil, err
	}
	return []packed{{completion, 0o755, script}, {"LICENSE", 0o644, license}}, nil
}

// pack makes an archive that is the same every time.
func (r *release) pack(p platform, files []packed) ([]byte, error) {
	var archive bytes.Buffer
	pack := r.tar
	if p.os == "windows" {
		pack = r.zip
	}
	err := pack(&archive, files)
	return archive.Bytes(), err
}

// tar writes a compressed archive.
func (r *release) tar(to io.Writer, files []packed) error {
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: r.time}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func (r *release) zip(to io.Writer, files []packed) error {
	archive := zip.NewWriter(to)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// A krewManifest describes the plugin for krew
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
type krewManifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

func (r *release) krew() *krewManifest {
	return &krewManifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "entrypointer"},
		Spec: krewSpec{
			Version: r.version, Homepage: repositoryURL,
			ShortDescription: "Ask what entrypointer does with pods",
			Description:      "Says whether pods are wrapped by entrypointer, why not, and what their containers\nwait for; shows where the time went, and reads, searches and deletes their logs.\n",
		},
	}
}

func (m *krewManifest) add(p platform, url string, archive []byte) {
	sum := sha256.Sum256(archive)
	of := krewPlatform{URI: url, SHA256: hex.EncodeToString(sum[:]), Bin: p.program()}
	of.Selector.MatchLabels = map[string]string{"os": p.os, "arch": p.architecture}
	m.Spec.Platforms = append(m.Spec.Platforms, of)
}
