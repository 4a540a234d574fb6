// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// startLimit is the time that a program may take to start.
	startLimit = 3 * time.Minute
	pollPause  = 10 * time.Millisecond
)

// A process is a program that runs.
type process struct {
	command *exec.Cmd
	output  string // a file with what it has printed
	began   time.Time
	ended   chan struct{}
	err     error // of its end
}

// start starts a program of the directory.
func start(directory, name string, environment []string, arguments ...string) (*process, error) {
	output := filepath.Join(directory, name+".log")
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	command := exec.Command(filepath.Join(directory, name), arguments...)
	command.Dir, command.Env = directory, environment
	command.Stdout, command.Stderr = file, file
	p := &process{command: command, output: output, began: time.Now(), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// kill ends a process, if there is one.
func (p *process) kill() {
	if p != nil {
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// runs reports whether there is a process that hasn't ended.
func (p *process) runs() bool {
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

// said returns the end of what a process has printed.
func (p *process) said() string {
	text, _ := os.ReadFile(p.output)
	return string(text[max(0, len(text)-3000):])
}

// await waits until a program answers a request with 200.
func (p *process) await(ctx context.Context, client *http.Client, request func(context.Context) (*http.Request, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		last := answers(ctx, client, request)
		if last == nil {
			return time.Since(p.began), nil
		}
		select {
		case <-p.ended:
			return 0, fmt.Errorf("starting %s: it has ended: %w: %s", p.command.Path, p.err, p.said())
		case <-ctx.Done():
			return 0, fmt.Errorf("starting %s: %w: %s", p.command.Path, errors.Join(ctx.Err(), last), p.said())
		case <-time.After(pollPause):
		}
	}
}

func answers(ctx context.Context, client *http.Client, request func(context.Context) (*http.Request, error)) error {
	r, err := request(ctx)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", r.URL, response.Status)
	}
	return nil
}

// A usage is what a process has used.
type usage struct {
	RSS, HighestRSS int64 // bytes
	CPU             time.Duration
}

func (p *process) usage() (usage, error) {
	pid := p.command.Process.Pid
	now, err := framework.UsageOf(pid)
	if err != nil {
		return usage{}, fmt.Errorf("reading what %s uses: %w", p.command.Path, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	highest := int64(0)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			highest, err = strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return usage{RSS: now.RSS, HighestRSS: highest << 10, CPU: now.CPU}, err
}

// settle waits until a process uses less than a twentieth of a core, and returns the time
// since its start.
func (p *process) settle(ctx context.Context, limit time.Duration) (time.Duration, error) {
	const look, idle, looks = time.Second, time.Second / 20, 3
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	calm, since := 0, time.Time{}
	before, err := p.usage()
	for err == nil {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting until %s is idle: %w", p.command.Path, ctx.Err())
		case <-time.After(look):
		}
		var now usage
		if now, err = p.usage(); err != nil {
			break
		}
		if now.CPU-before.CPU >= idle {
			calm = 0
		} else if calm++; calm == 1 {
			since = time.Now()
		}
		if calm == looks {
			return since.Sub(p.began), nil
		}
		before = now
	}
	return 0, err
}

// onCore calls f while the processes that it starts get one core alone.
func onCore(f func() (*process, error)) (*process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, err
	}
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			one.Zero()
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, err
	}
	p, err := f()
	return p, errors.Join(err, unix.SchedSetaffinity(0, &all))
}
