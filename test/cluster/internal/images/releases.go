// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// Release is a project that publishes YAML for ko: where an image belongs, it
// has "ko://" and the import path of the program in it.
type Release struct {
	tools.Project
	Config string // directory of its YAML in the module
	// Without are files and directories of it to leave out.
	Without []string
	// CRDs are other modules' YAML that this one's needs.
	CRDs []CRDs
}

// CRDs are YAML files of a module, as they are.
type CRDs struct {
	Module string
	Glob   string
}

// The releases.
var (
	Tekton = Release{
		Project: tools.TektonProject,
		Config:  "config",
		// Resolvers need an image with git and tini; nobody gets events.
		Without: []string{"resolvers", "events.yaml"},
	}
	Knative = Release{
		Project: tools.KnativeProject,
		Config:  "config/core",
		CRDs: []CRDs{
			{"knative.dev/networking", "config/*.yaml"},
			{"knative.dev/caching", "config/image.yaml"},
		},
	}
)

// Releases are all of them, in the order in which they are built.
func Releases() []Release { return []Release{Tekton, Knative} }

// koReference is what ko replaces.
var koReference = regexp.MustCompile(`ko://[A-Za-z0-9._/-]+`)

// Group is what is to be built for the release.
func (r Release) Group(ctx context.Context, m tools.Module) (tools.Group, error) {
	text, err := r.read(ctx, m)
	return group(r.Name, text), err
}

func group(name, yaml string) tools.Group {
	references := koReference.FindAllString(yaml, -1)
	slices.Sort(references)
	g := tools.Group{Name: name}
	for _, reference := range slices.Compact(references) {
		g.Programs = append(g.Programs, tools.Program{Package: strings.TrimPrefix(reference, "ko://")})
	}
	return g
}

// Resolve pushes the images of the release, whose binaries are in a directory,
// unless the registry has them, and returns the path of its YAML with their
// digests in place.
func (r Release) Resolve(ctx context.Context, l layout.Layout, m tools.Module, binaries string) (string, error) {
	file := l.Manifests(r.Name + "-" + filepath.Base(binaries) + ".yaml")
	if resolved, err := os.ReadFile(file); err == nil && missing(ctx, string(resolved)) == nil {
		return file, nil
	}
	text, err := r.read(ctx, m)
	if err != nil {
		return "", err
	}
	resolved := map[string]string{}
	for _, program := range group(r.Name, text).Programs {
		image := r.image(program, binaries)
		if err := Push(ctx, []Image{image}); err != nil {
			return "", err
		}
		pushed, err := digest(ctx, layout.Registry+"/"+image.Repository+":latest")
		if err != nil {
			return "", err
		}
		resolved["ko://"+program.Package] = pushed.String()
	}
	text = koReference.ReplaceAllStringFunc(text, func(reference string) string { return resolved[reference] })
	if err := os.MkdirAll(l.Manifests(), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
}

// image is as ko makes it, for projects that know where ko puts a program.
func (r Release) image(program tools.Program, binaries string) Image {
	name := program.Binary()
	return Image{
		Repository: path.Join(r.Name, name),
		Tags:       []string{"latest"},
		Files:      append(staticFiles(), File{Path: "ko-app/" + name, Mode: 0o755, From: filepath.Join(binaries, name)}),
		Entrypoint: []string{"/ko-app/" + name},
		User:       nonroot,
	}
}

// read returns the release's YAML.
func (r Release) read(ctx context.Context, m tools.Module) (string, error) {
	var yaml strings.Builder
	for _, crds := range r.CRDs {
		dir, err := m.ModuleDir(ctx, crds.Module)
		if err != nil {
			return "", err
		}
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(crds.Glob)))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("looking for %q in %s: there is nothing (%w)", crds.Glob, crds.Module, err)
		}
		if err := appendFiles(&yaml, files); err != nil {
			return "", err
		}
	}
	dir, err := m.ModuleDir(ctx, r.Module)
	if err != nil {
		return "", err
	}
	files, err := r.files(filepath.Join(dir, filepath.FromSlash(r.Config)))
	if err != nil {
		return "", fmt.Errorf("looking for the YAML of %s: %w", r.Name, err)
	}
	err = appendFiles(&yaml, files)
	return yaml.String(), err
}

// files are the paths of the YAML in a directory and below, in lexical order.
func (r Release) files(dir string) (files []string, _ error) {
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		switch {
		case err != nil:
			return err
		case !slices.Contains(r.Without, relative):
		case entry.IsDir():
			return fs.SkipDir
		default:
			return nil
		}
		if !entry.IsDir() && filepath.Ext(file) == ".yaml" {
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func appendFiles(yaml *strings.Builder, files []string) error {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(yaml, "%s\n---\n", text)
	}
	return nil
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
