// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is for what takes milliseconds.
const patience = 10 * time.Second

// takeTurns measures each peer n times. Every turn has an order of its own, so
// that what else the machine does, and what the one before left in the caches,
// hits all alike. The times are sorted.
func takeTurns(ctx context.Context, peers []*peer, n int, measure func(*peer) (time.Duration, error)) (map[*peer][]time.Duration, error) {
	times := make(map[*peer][]time.Duration)
	for range n {
		for _, i := range rand.Perm(len(peers)) { //nolint:gosec // G404: nobody gains from guessing the order
			p := peers[i]
			if err := errors.Join(ctx.Err(), os.RemoveAll(p.leftovers)); err != nil {
				return nil, err
			}
			took, err := measure(p)
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", p.name, err)
			}
			times[p] = append(times[p], took)
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	return times, nil
}

// starts measures how long a command that does nothing takes, from start to end.
func starts(ctx context.Context, peers []*peer, turns int) (map[*peer][]time.Duration, error) {
	nothing, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	return takeTurns(ctx, peers, turns, func(p *peer) (time.Duration, error) {
		begun := time.Now()
		pid, err := fork(p.command(nothing), p.environ(), files)
		if err != nil {
			return 0, err
		}
		err = wait(pid)
		return time.Since(begun), err
	})
}

// exits measures how long a peer's parent waits for the peer's end after the
// child has decided on its own.
func exits(ctx context.Context, peers []*peer, child string, turns int) (map[*peer][]time.Duration, error) {
	return takeTurns(ctx, peers, turns, func(p *peer) (time.Duration, error) {
		r, err := begin(p, child)
		if err != nil {
			return 0, err
		}
		time.Sleep(5 * time.Millisecond) // until the peer, too, has nothing to do
		return r.end()
	})
}

// A running peer has the child under it.
type running struct {
	pid    int
	stamps *os.File // the child writes to this
	until  *os.File // the child exits when this is closed
}

// begin starts the child under a peer and waits until it is ready.
func begin(p *peer, child string) (*running, error) {
	stamps, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }()
	three, until, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stamps.Close())
	}
	defer func() { _ = three.Close() }()
	r := &running{stamps: stamps, until: until}
	r.pid, err = fork(p.command(child), p.environ(), []uintptr{0, stdout.Fd(), 2, three.Fd()})
	if err != nil {
		return nil, errors.Join(err, stamps.Close(), until.Close())
	}
	if _, err = r.stamp(); err != nil {
		_, e := r.end()
		return nil, errors.Join(err, e)
	}
	return r, nil
}

// stamp is the next time that the child tells.
func (r *running) stamp() (time.Duration, error) {
	if err := r.stamps.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var ns int64
	if err := binary.Read(r.stamps, binary.NativeEndian, &ns); err != nil {
		return 0, fmt.Errorf("reading a time from the child: %w; does its supervisor pass signals and descriptors on?", err)
	}
	return time.Duration(ns), nil
}

// signal measures the way of a signal through the peer to the child.
func (r *running) signal() (time.Duration, error) {
	sent := now()
	if err := syscall.Kill(r.pid, syscall.SIGUSR1); err != nil {
		return 0, err
	}
	noticed, err := r.stamp()
	return noticed - sent, err
}

// end lets the child exit, and measures how long after it the peer does.
func (r *running) end() (time.Duration, error) {
	defer func() { _ = r.stamps.Close() }()
	if err := r.until.Close(); err != nil {
		return 0, err
	}
	waited := wait(r.pid)
	ended := now()
	exited, err := r.stamp()
	return ended - exited, errors.Join(waited, err)
}

// fork starts argv by no more than fork and exec.
func fork(argv, env []string, files []uintptr) (int, error) {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: env, Files: files})
	if err != nil {
		return 0, fmt.Errorf("starting %q: %w", argv, err)
	}
	return pid, nil
}

func wait(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("waiting for process %d: %w", pid, err)
		case status != 0:
			return fmt.Errorf("process %d ended with status %#x", pid, uint32(status))
		}
		return nil
	}
}

// now is the clock of the child's stamps.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
