// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// Release is a project that publishes YAML for ko.
type Release struct {
	Name    string
	Module  string
	Version string
	Config  string   // directory of its YAML in the module
	Without []string // subdirectories to leave out
	// CRDs are other modules' YAML that this one's needs.
	CRDs []CRDs
}

// CRDs are YAML files of a module, as they are.
type CRDs struct {
	Module  string
	Version string
	Glob    string
}

// The releases. Their versions go together with those in go.mod of the product.
var (
	Tekton = Release{
		Name:    "tekton",
		Module:  "github.com/tektoncd/pipeline",
		Version: "v1.15.0",
		Config:  "config",
		Without: []string{"resolvers"}, // needs an image with git and tini
	}
	Knative = Release{
		Name:    "knative",
		Module:  "knative.dev/serving",
		Version: "v0.50.0",
		Config:  "config/core",
		CRDs: []CRDs{
			{"knative.dev/networking", "v0.0.0-20260727162500-c7a7b772cac9", "config/*.yaml"},
			{"knative.dev/caching", "v0.0.0-20260727161800-0edbf88bc267", "config/image.yaml"},
		},
	}
)

// koConfig replaces the projects' own, which name base images elsewhere.
const koConfig = `defaultBaseImage: %s
defaultLdflags: ["-s", "-w"]
`

// Resolve builds a release's images, pushes them, and returns the path of its
// YAML with their digests in place: at once if that was done before, and the
// registry has the images still.
func (r Release) Resolve(ctx context.Context, l layout.Layout) (path string, err error) {
	base, err := digest(ctx, Static)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, base, koConfig, runtime.GOARCH, r))
	path = l.Manifests(fmt.Sprintf("%s@%s-%s.yaml", r.Name, r.Version, hex.EncodeToString(sum[:4])))
	if text, err := os.ReadFile(path); err == nil && missing(ctx, string(text)) == nil {
		return path, nil
	}
	err = progress.Step(fmt.Sprintf("building the images of %s %s", r.Name, r.Version), func() error {
		return r.resolve(ctx, l, base.String(), path)
	})
	return path, err
}

func (r Release) resolve(ctx context.Context, l layout.Layout, base, path string) error {
	var yaml strings.Builder
	for _, crds := range r.CRDs {
		if err := crds.read(ctx, &yaml); err != nil {
			return err
		}
	}
	dir, err := r.copySource(ctx, l, base)
	if err != nil {
		return err
	}
	log := l.BuildLogs(r.Name + ".log")
	resolved, err := r.runKo(ctx, l, dir, log)
	if err != nil {
		return progress.WithLog(err, log)
	}
	yaml.Write(resolved)
	if err := os.MkdirAll(l.Manifests(), 0o755); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(yaml.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func (c CRDs) read(ctx context.Context, yaml *strings.Builder) error {
	dir, err := tools.ModuleDir(ctx, c.Module, c.Version)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(c.Glob)))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("looking for %q in %s@%s: there is nothing (%w)", c.Glob, c.Module, c.Version, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(yaml, "%s\n---\n", text)
	}
	return nil
}

// copySource makes a copy of the module that ko can build in: with its own
// go.mod and go.sum, and a configuration of ours.
func (r Release) copySource(ctx context.Context, l layout.Layout, base string) (string, error) {
	from, err := tools.ModuleDir(ctx, r.Module, r.Version)
	if err != nil {
		return "", err
	}
	dir := l.Source(r.Name)
	if err := tools.CopyDir(from, dir); err != nil {
		return "", err
	}
	for _, without := range r.Without {
		if err := os.RemoveAll(filepath.Join(dir, r.Config, without)); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, ".ko.yaml"), fmt.Appendf(nil, koConfig, base), 0o644)
}

func (r Release) runKo(ctx context.Context, l layout.Layout, dir, log string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, tools.Ko.Path(l, "ko"), "resolve",
		"--base-import-paths", "--sbom=none", "--platform=linux/"+runtime.GOARCH,
		"--recursive", "--filename", r.Config)
	cmd.Dir = dir
	cmd.Env = append(tools.Environ(),
		"KO_DOCKER_REPO="+layout.Registry+"/"+r.Name,
		"KO_CONFIG_PATH="+dir,
		"KO_DEFAULTBASEIMAGE=", // the caller's, for another project
		"NO_PROXY="+layout.NoProxy)
	cmd.Stderr = out
	return cmd.Output()
}

// reference matches the images in our registry by digest.
var reference = regexp.MustCompile(regexp.QuoteMeta(layout.Registry) + `/[a-z0-9/._-]+@sha256:[0-9a-f]{64}`)

// missing tells which image that a text refers to the registry doesn't have.
func missing(ctx context.Context, text string) error {
	for _, image := range reference.FindAllString(text, -1) {
		if _, err := digest(ctx, image); err != nil {
			return err
		}
	}
	return nil
}
