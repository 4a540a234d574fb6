// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// serviceAccount is where a pod has a token for the API server, below /run.
const serviceAccount = "secrets/kubernetes.io/serviceaccount"

// A system is a way to have one container depend on another.
type system struct {
	name  string
	event string // what the second does when the first has ended
	why   string // it isn't measured; "" if it is

	child         string // the program that is the command of both
	first, second func(*pod) spec
	holds         string // the volume in which the first says how it is, in the pod's directory
	says          string // the file there in which it says that it has ended
	prepare       func(*pod) error
	waits         string        // what the second says once it waits, if it says something
	asks          bool          // the API server, instead of a volume
	looks         time.Duration // how often it looks; 0 if it is told
	// forged is what a file says of a container that has ended with success.
	forged string
	// others are the mounts that a third container of the pod has.
	others func(*pod) []mount
}

// peers are the paths of programs to compare with; "" is one that isn't given.
type peers struct{ argoexec, kubexit string }

// systems are those that are compared, ours first in each group.
func systems(ctx context.Context, top, dir string, given peers) ([]*system, error) {
	child, ours := filepath.Join(dir, "child"), filepath.Join(dir, "entrypoint")
	for path, pkg := range map[string]string{child: "./test/bench/order/child", ours: "./cmd/copier"} {
		if err := build(ctx, top, path, pkg); err != nil {
			return nil, err
		}
	}
	all := []*system{
		entrypoint(ours, "`depends-on`", started, "-depends-on=completed:"), emissary(ctx, given.argoexec), births(given.kubexit),
		entrypoint(ours, "`stop-when`", stopped, "-stop-when=exited:"), deaths(given.kubexit),
	}
	for _, s := range all {
		s.child = child
		if s.why == "" {
			s.try(dir)
		}
	}
	if all[0].why != "" {
		return nil, errors.New(all[0].why)
	}
	return all, nil
}

// try looks whether a system works here, so that what doesn't isn't measured.
func (s *system) try(dir string) {
	p, err := s.newPod(dir, way{})
	if err == nil {
		_, _, err = p.both(way{})
		if err != nil {
			s.why = strings.ReplaceAll(lastLine(err), p.dir, "POD")
		}
		err = p.close()
	}
	if err != nil {
		s.why = lastLine(err)
	}
}

// entrypoint is ours. The second sees the first's directory read-only; no other
// container has it at all.
func entrypoint(path, option, event, flag string) *system {
	volume := func(p *pod) mount { return mount{from: p.volume(), to: p.volume()} }
	readOnly := func(p *pod) mount { return mount{from: p.volume(), to: p.volume(), readOnly: true} }
	return &system{
		name: "**entrypointer**, " + option, event: event, holds: "first", says: "state",
		first: func(p *pod) spec {
			return spec{argv: []string{path, "-order-dir=" + p.volume(), "--"}, mounts: []mount{volume(p)}}
		},
		second: func(p *pod) spec {
			return spec{argv: []string{path, flag + p.volume(), "-final-exit-codes=0-255:" + p.volume(), "--"}, mounts: []mount{readOnly(p)}}
		},
		forged: "order 1\nincarnation 0123456789abcdef\nphase ended\nexit-code 0\nbeat 0\n",
		others: func(p *pod) []mount { return []mount{readOnly(p)} },
	}
}

// runOf is the pod's /run. What has a path below that doesn't find the machine's.
func runOf(p *pod) []mount { return []mount{{from: filepath.Join(p.dir, "run"), to: "/run"}} }

// births is kubexit, which starts a container when the API server says that others are
// ready. (It has no other condition.)
func births(path string) *system {
	s := kubexit(path, "birth dependencies", started, "KUBEXIT_BIRTH_DEPS=first")
	s.asks, s.waits = true, "Watching pod updates"
	return s
}

// deaths is kubexit, which stops a container when another one has ended.
func deaths(path string) *system {
	s := kubexit(path, "death dependencies", stopped, "KUBEXIT_DEATH_DEPS=first")
	s.waits = "Watching graveyard"
	return s
}

func kubexit(path, mechanism, event, dependencies string) *system {
	s := &system{
		name: "kubexit, " + mechanism, event: event, holds: "run/graveyard", says: "first", others: runOf,
		forged: "Born: \"2020-01-01T00:00:00Z\"\nDied: \"2020-01-01T00:00:01Z\"\nExitCode: 0\n",
	}
	if path == "" {
		s.why = "give a kubexit with `-kubexit`"
		return s
	}
	s.name = strings.ReplaceAll(filepath.Base(path), "-", " ") + ", " + mechanism
	as := func(name string, more ...string) func(*pod) spec {
		return func(p *pod) spec {
			env := append([]string{"KUBEXIT_NAME=" + name, "KUBEXIT_GRAVEYARD=/run/graveyard", "KUBEXIT_NAMESPACE=default", "KUBEXIT_POD_NAME=pod"}, more...)
			if p.api != nil {
				env = append(env, p.api.environ()...)
			}
			return spec{argv: []string{path}, env: env, mounts: runOf(p)}
		}
	}
	s.first, s.second = as("first"), as("second", dependencies)
	return s
}

// build is how a release is built.
func build(ctx context.Context, top, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = top, append(cmd.Environ(), "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}

// output runs cmd and returns what it said on stdout, or an error that ends with what
// it said on stderr.
func output(cmd *exec.Cmd) (string, error) {
	stdout, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("running %q: %w\n%s", cmd.Args, err, failed.Stderr)
	}
	return strings.TrimSpace(string(stdout)), err
}

// lastLine is where a program that fails says why.
func lastLine(err error) string {
	text := strings.TrimSpace(err.Error())
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
