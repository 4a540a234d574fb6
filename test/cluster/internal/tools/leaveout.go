// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed leftout/dns.go.txt
var noDNSProviders string

//go:embed leftout/ecs.go.txt
var noECS string

// leftOut are packages that take most of the time that Traefik takes to
// compile, and are no use here: the clients of 150 DNS providers, by which an
// ACME server gives certificates, and that of all that Amazon's EC2 can do.
var leftOut = []struct{ module, dir, instead string }{
	{"github.com/go-acme/lego/v4", "providers/dns", noDNSProviders},
	{"github.com/traefik/traefik/v3", "pkg/provider/ecs", noECS},
}

// copied is the path of the copy of go.mod that the go command reads.
func (m Module) copied() string {
	if m.name == "go" {
		return m.layout.Source("programs.mod")
	}
	return m.layout.Source(m.name + ".mod")
}

// modfile is the flag that has the go command read the go.mod that Prepare writes.
func (m Module) modfile() string { return "-modfile=" + m.copied() }

// Prepare writes a go.mod that is the module's own but for modules that have a
// package to leave out: it replaces them with copies that don't.
func (m Module) Prepare(ctx context.Context) error {
	if err := os.MkdirAll(m.layout.Temporary(), 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(m.dir, m.name+".mod"))
	if err != nil {
		return err
	}
	for _, p := range leftOut {
		if m.versions[p.module] == "" {
			continue
		}
		from, err := m.ModuleDir(ctx, p.module)
		if err != nil {
			return err
		}
		to := m.layout.Source(m.key, filepath.Base(filepath.Dir(from))+"-"+filepath.Base(from))
		if _, err := os.Stat(to); err != nil {
			if err := copyWithout(from, to, p.dir, p.instead); err != nil {
				return fmt.Errorf("leaving %s out of %s: %w", p.dir, p.module, err)
			}
		}
		text = fmt.Appendf(text, "\nreplace %s => %s\n", p.module, to)
	}
	sums, err := os.ReadFile(filepath.Join(m.dir, m.name+".sum"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.layout.Source(), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(m.copied(), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(m.copied(), ".mod")+".sum", sums, 0o644)
}

// copyWithout copies a module, with one file instead of those of a package. The
// copy appears when it is complete.
func copyWithout(from, to, dir, instead string) error {
	partial := to + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.CopyFS(partial, os.DirFS(from)); err != nil {
		return err
	}
	dir = filepath.Join(partial, filepath.FromSlash(dir))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there is no such package any more (%w)", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "leftout.go"), []byte(instead), 0o644); err != nil {
		return err
	}
	return os.Rename(partial, to)
}
