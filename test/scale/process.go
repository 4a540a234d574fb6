// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/test/program"
)

// startLimit is the time that a program may take to start.
const startLimit = 3 * time.Minute

// start starts a program of the directory.
func (w *world) start(name string, environment []string, arguments ...string) (*program.Process, error) {
	path := filepath.Join(w.directory, name)
	command := exec.Command(path, arguments...)
	command.Dir, command.Env = w.directory, environment
	return program.Start(command, path+".log")
}

// await waits until a program answers a request with 200, and returns the time since its start.
func await(ctx context.Context, p *program.Process, client *http.Client, request func(context.Context) (*http.Request, error)) (time.Duration, error) {
	return p.Await(ctx, "an answer", startLimit, func(ctx context.Context) error { return answers(ctx, client, request) })
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

// settle waits until the injector uses less than a twentieth of a core, and returns the time
// since its start.
func (w *world) settle(ctx context.Context) (time.Duration, error) {
	const look, idle, looks = time.Second, time.Second / 20, 3
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	calm, since := 0, time.Time{}
	before, err := w.injector.Usage()
	for err == nil {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting until the injector is idle: %w", ctx.Err())
		case <-time.After(look):
		}
		now, failed := w.injector.Usage()
		if err = failed; err != nil {
			break
		}
		if now.CPU-before.CPU >= idle {
			calm = 0
		} else if calm++; calm == 1 {
			since = time.Now()
		}
		if calm == looks {
			return since.Sub(w.injector.Began), nil
		}
		before = now
	}
	return 0, err
}

// onCore calls f while the processes that it starts get one core alone.
func onCore(f func() (*program.Process, error)) (*program.Process, error) {
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
