// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	tektonPackage     = "github.com/tektoncd/pipeline/cmd/entrypoint" // of the version in go.mod
	bankVaultsPackage = "github.com/bank-vaults/secret-init@v0.4.0"
)

// A peer is a way to run a command.
type peer struct {
	name string
	size int64    // of the program that is between, in bytes
	argv []string // what comes before the command, which is one word
	env  []string // in addition to ours
	// leftovers is a directory to remove before a run. Tekton adds to a
	// termination message, and fails when that is too long.
	leftovers string
	// replaced says that nothing is between once the command runs.
	replaced bool
	// startOnly says that only its start is worth a look.
	startOnly bool
}

// An absence is a peer that isn't in the table, and why.
type absence struct{ name, why string }

// The rows that others are compared with.
const (
	bareName = "bare"
	tiniName = "tini"
)

// collect builds or finds the peers. Ours must be there, others may be absent.
func collect(ctx context.Context, top, dir string) (peers []*peer, absent []absence, err error) {
	ours, err := entrypoint(ctx, top, dir)
	if err != nil {
		return nil, nil, err
	}
	least, err := skeletons(ctx, top, dir)
	if err != nil {
		return nil, nil, err
	}
	peers = slices.Concat([]*peer{{name: bareName, replaced: true}}, ours, least)
	for _, find := range []struct {
		name string
		peer func() (*peer, error)
	}{
		{tiniName, func() (*peer, error) { return installed(ctx, tiniName, "-s", "--") }},
		{"tini-static", func() (*peer, error) { return installed(ctx, "tini-static", "-s", "--") }},
		{"dumb-init", func() (*peer, error) { return installed(ctx, "dumb-init", "--") }},
		{"catatonit", func() (*peer, error) { return installed(ctx, "catatonit", "--") }},
		{"Tekton's entrypoint", func() (*peer, error) { return tekton(ctx, top, dir) }},
		{"bank-vaults' secret-init", func() (*peer, error) { return bankVaults(ctx, top) }},
	} {
		p, err := find.peer()
		if err == nil {
			err = p.try(ctx)
		}
		if err != nil {
			log.Printf("%s: %v", find.name, err)
			absent = append(absent, absence{find.name, lastLine(err)})
			continue
		}
		peers = append(peers, p)
	}
	return peers, absent, ctx.Err()
}

// entrypoint builds ours as it is in a pod: the copier under another name.
func entrypoint(ctx context.Context, top, dir string) ([]*peer, error) {
	path := filepath.Join(dir, "entrypoint")
	if err := build(ctx, top, path, "./cmd/copier"); err != nil {
		return nil, err
	}
	ours := []*peer{
		{name: "**entrypointer**", argv: []string{path, "--"}},
		{name: "**entrypointer**, `-mode=exec`", argv: []string{path, "-mode=exec", "--"}, replaced: true},
	}
	for _, n := range []string{"16", "64", "128"} {
		// What the Go runtime does on such a node, as far as it can be had on a smaller one.
		ours = append(ours, &peer{name: "**entrypointer**, `GOMAXPROCS=" + n + "`", argv: []string{path, "--"}, env: []string{"GOMAXPROCS=" + n}})
	}
	for _, p := range ours {
		if err := p.try(ctx); err != nil {
			return nil, err
		}
	}
	return ours, nil
}

// skeletons are what Go alone costs.
func skeletons(ctx context.Context, top, dir string) ([]*peer, error) {
	path := filepath.Join(dir, "skeleton")
	if err := build(ctx, top, path, "./test/bench/supervisor/skeleton"); err != nil {
		return nil, err
	}
	least := []*peer{
		{name: "Go program that only does fork, exec and wait", argv: []string{path, "wait"}, startOnly: true},
		{name: "Go program that only does exec", argv: []string{path, "exec"}, startOnly: true},
	}
	nothing, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	for _, p := range least {
		argv := p.command(nothing)
		if _, err := output(exec.CommandContext(ctx, argv[0], argv[1:]...)); err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p.size = info.Size()
	}
	return least, nil
}

func installed(ctx context.Context, name string, flags ...string) (*peer, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("looking for %q: it is not installed", name)
	}
	p := &peer{name: name, argv: append([]string{path}, flags...)}
	// Some say it on stderr, and some fail having said it.
	said, _ := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if version := versionNumber.Find(said); version != nil {
		p.name += " " + string(version)
	}
	return p, nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// tekton builds Tekton's entrypoint as it is released, and has it do what it
// does for a step: write when it is done, and how it went.
func tekton(ctx context.Context, top, dir string) (*peer, error) {
	path := filepath.Join(dir, "tekton")
	if err := build(ctx, top, path, tektonPackage); err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	run := filepath.Join(dir, "run")
	return &peer{name: "Tekton's entrypoint " + info.Main.Version, leftovers: run, argv: []string{
		path, "-post_file", filepath.Join(run, "out"), "-termination_path", filepath.Join(run, "termination"),
		"-step_metadata_dir", filepath.Join(run, "status"), "-entrypoint",
	}}, nil
}

// bankVaults builds secret-init, which forwards signals only as a "daemon".
func bankVaults(ctx context.Context, top string) (*peer, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(top, "hack/go-tool.sh"), bankVaultsPackage)
	path, err := output(cmd)
	if err != nil {
		return nil, err
	}
	_, version, _ := strings.Cut(bankVaultsPackage, "@")
	return &peer{
		name: "bank-vaults' secret-init " + version, argv: []string{path},
		env: []string{"SECRET_INIT_DAEMON=true", "SECRET_INIT_LOG_LEVEL=error"}, // it logs to stdout
	}, nil
}

// build is how a release is built.
func build(ctx context.Context, top, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}

// try runs a command that does nothing, so that what can't run isn't measured.
func (p *peer) try(ctx context.Context) error {
	argv := p.command("true")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = p.environ()
	if _, err := output(cmd); err != nil {
		return err
	}
	program, err := os.Stat(cmd.Path)
	if err != nil {
		return err
	}
	p.size = program.Size()
	return nil
}

func (p *peer) command(word string) []string { return append(slices.Clip(p.argv), word) }

func (p *peer) environ() []string { return append(os.Environ(), p.env...) }

// output runs cmd and returns what it said on stdout, or an error that ends
// with what it said on stderr.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %q: %w\n%s", cmd.Args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(stdout)), nil
}

// lastLine is where a program that fails says why.
func lastLine(err error) string {
	text := err.Error()
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
