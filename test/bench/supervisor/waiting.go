// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A waiter is what a supervisor takes while its child runs.
type waiter struct {
	rssAnon, rss int64 // bytes
	// While there is nothing to do:
	wakeups int64
	cpu     time.Duration
}

// waiting has all peers wait at the same time. It watches them idle, and then
// sends them signals.
func waiting(ctx context.Context, peers []*peer, child string, turns int, idle time.Duration) (
	signals map[*peer][]time.Duration, waits map[*peer]waiter, err error,
) {
	all := make(map[*peer]*running)
	defer func() {
		for _, r := range all {
			_, e := r.end()
			err = errors.Join(err, e)
		}
	}()
	for _, p := range peers {
		if all[p], err = begin(p, child); err != nil {
			delete(all, p)
			return nil, nil, fmt.Errorf("starting a child under %s: %w", p.name, err)
		}
	}
	if waits, err = watch(ctx, all, idle); err != nil {
		return nil, nil, err
	}
	signals, err = takeTurns(ctx, peers, turns, func(p *peer) (time.Duration, error) { return all[p].signal() })
	return signals, waits, err
}

// watch looks at each process before and after a while in which nothing happens.
func watch(ctx context.Context, all map[*peer]*running, idle time.Duration) (map[*peer]waiter, error) {
	look := func() (map[*peer]waiter, error) {
		seen := make(map[*peer]waiter)
		for p, r := range all {
			w, err := inspect(r.pid)
			if err != nil {
				return nil, fmt.Errorf("looking at %s: %w", p.name, err)
			}
			seen[p] = w
		}
		return seen, nil
	}
	pause(ctx, 2*time.Second) // until runtimes have noticed that there is nothing to do
	before, err := look()
	if err != nil {
		return nil, err
	}
	pause(ctx, idle)
	after, err := look()
	for p, w := range after {
		w.wakeups -= before[p].wakeups
		w.cpu -= before[p].cpu
		after[p] = w
	}
	return after, errors.Join(err, ctx.Err())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// inspect reads what the kernel has counted since the process began.
func inspect(pid int) (w waiter, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return w, err
	}
	w.rssAnon, w.rss = field(string(status), "RssAnon")<<10, field(string(status), "VmRSS")<<10
	threads, err := filepath.Glob(filepath.Join(dir, "task/*/status"))
	if err != nil {
		return w, err
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			return w, err
		}
		// How often it went to sleep of its own.
		w.wakeups += field(string(status), "voluntary_ctxt_switches")
	}
	var cpu unix.Timespec
	// The clock of another process, as of clock_getcpuclockid(3): finer than
	// the ticks in /proc.
	clock := int32(^pid<<3 | 2) //nolint:gosec // G115: process IDs have 22 bits
	if err := unix.ClockGettime(clock, &cpu); err != nil {
		return w, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	w.cpu = time.Duration(cpu.Nano())
	return w, nil
}

// field is a number in a status file of /proc, 0 if it isn't there.
func field(status, name string) int64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n
		}
	}
	return 0
}
