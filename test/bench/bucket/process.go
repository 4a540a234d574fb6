// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// startLimit is what a program may take to start.
	startLimit = time.Minute
	// stopLimit is what a program may take to end after a SIGTERM.
	stopLimit = time.Minute
	pollPause = 100 * time.Millisecond
)

// A program is one that is compiled here.
type program struct{ directory, pkg string } // the directory of its module, in the repository

var (
	service   = program{".", "./cmd/logs"}
	versitygw = program{"test/stores/versitygw", "."}
	loki      = program{"test/destinations/loki", "github.com/grafana/loki/v3/cmd/loki"}
)

// build compiles a program.
func (p program) build(ctx context.Context, path string) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(top, filepath.FromSlash(p.directory)), "-o", path, p.pkg)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running %q: %w: %.2000s", command.Args, err, out)
	}
	return nil
}

// A process is a program that runs.
type process struct {
	command *exec.Cmd
	output  string // a file with what it has printed
	ended   chan struct{}
	err     error // of its end
}

// start starts a program that ends with this one.
func start(ctx context.Context, output string, environment []string, path string, arguments ...string) (*process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command := exec.CommandContext(ctx, path, arguments...)
	command.Stdout, command.Stderr = file, file
	command.Env = append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("running %q: %w", command.Args, err)
	}
	p := &process{command: command, output: output, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop ends a process with SIGTERM.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", p.command.Path, err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("stopping %s: %w: %s", p.command.Path, p.err, p.said())
		}
		return nil
	case <-time.After(stopLimit):
		p.kill()
		return fmt.Errorf("stopping %s: it hasn't ended within %v", p.command.Path, stopLimit)
	}
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// said returns the end of what a process has printed.
func (p *process) said() string {
	text, _ := os.ReadFile(p.output)
	return string(text[max(0, len(text)-2000):])
}

// await waits until a condition holds, or a process has ended.
func (p *process) await(ctx context.Context, what string, limit time.Duration, is func() bool) error {
	deadline := time.Now().Add(limit)
	for !is() {
		select {
		case <-p.ended:
			return fmt.Errorf("waiting for %s: %s has ended: %w: %s", what, p.command.Path, p.err, p.said())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollPause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: nothing for %v: %s", what, limit, p.said())
		}
	}
	return nil
}

// highest returns the largest memory that a process has had (RSS), in bytes.
func (p *process) highest() (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.command.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "VmHWM:"); is {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("reading the memory of a process: it has no VmHWM")
}

func (p *process) cpu() (time.Duration, error) {
	usage, err := framework.UsageOf(p.command.Process.Pid)
	return usage.CPU, err
}

// free returns an address on which nobody listens.
func free(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// get returns the body of a response 200.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("asking %s: %s: %.300s", url, response.Status, body)
	}
	return string(body), err
}

// metric returns the value of a metric without labels in Prometheus' text, 0 without.
func metric(text, name string) float64 {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			number, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return number
		}
	}
	return 0
}
