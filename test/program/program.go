// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package program runs the programs that are measured: it starts them, waits until they serve,
// and reads what they use.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// stopLimit is what a program may take to end after a SIGTERM.
	stopLimit = time.Minute
	// shortestPause is between two tries, and longer as time passes: at most 1/pauseShare of
	// it, so that a time is as exact, and a program that takes minutes isn't kept busy.
	shortestPause = 10 * time.Millisecond
	pauseShare    = 50
	// mostSaid bounds what an error repeats of a program's output, in bytes.
	mostSaid = 3000
)

// A Process is a program that was started.
type Process struct {
	// Began is when it was started.
	Began time.Time

	command *exec.Cmd
	output  string // a file with what it has printed
	ended   chan struct{}
	err     error // of its end
}

// Start starts a command. What it prints is added to a file.
func Start(command *exec.Cmd, output string) (*Process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	command.Stdout, command.Stderr = file, file
	p := &Process{Began: time.Now(), command: command, output: output, ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("running %q: %w", command.Args, err)
	}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Runs reports whether there is a process that hasn't ended.
func (p *Process) Runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends a process, if there is one.
func (p *Process) Kill() {
	if p != nil {
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// Stop ends a process with SIGTERM.
func (p *Process) Stop() error {
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
		p.Kill()
		return fmt.Errorf("stopping %s: it hasn't ended within %v: %s", p.command.Path, stopLimit, p.said())
	}
}

// said returns the end of what a process has printed.
func (p *Process) said() string {
	text, _ := os.ReadFile(p.output)
	return string(text[max(0, len(text)-mostSaid):])
}

// Await tries until it succeeds, the process has ended, or time is up. It returns the time since
// the start of the process.
func (p *Process) Await(ctx context.Context, what string, limit time.Duration, try func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	for {
		err := try(ctx)
		if err == nil {
			return time.Since(p.Began), nil
		}
		select {
		case <-p.ended:
			return 0, fmt.Errorf("waiting for %s: %s has ended: %w: %s", what, p.command.Path, errors.Join(p.err, err), p.said())
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %s: %w: %s", what, errors.Join(ctx.Err(), err), p.said())
		case <-time.After(max(shortestPause, time.Since(began)/pauseShare)):
		}
	}
}

// Usage returns what the process has used.
func (p *Process) Usage() (framework.Usage, error) {
	used, err := framework.UsageOf(p.command.Process.Pid)
	if err != nil {
		return used, fmt.Errorf("reading what %s uses: %w", p.command.Path, err)
	}
	return used, nil
}
