// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package framework

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a process takes.
type Usage struct {
	RSSAnon, RSS int64 // bytes
	Threads      int
	// Since it began:
	HighestRSS int64 // bytes
	Wakeups    int64
	CPU        time.Duration
}

// UsageOf reads what the kernel has counted of a process of this machine.
func UsageOf(pid int) (u Usage, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	u.RSSAnon, u.RSS = field(string(status), "RssAnon")<<10, field(string(status), "VmRSS")<<10
	u.HighestRSS = field(string(status), "VmHWM") << 10
	threads, err := filepath.Glob(filepath.Join(dir, "task/*/status"))
	if err != nil {
		return u, err
	}
	u.Threads = len(threads)
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
			continue // it has just ended
		case err != nil:
			return u, err
		}
		// How often it went to sleep of its own.
		u.Wakeups += field(string(status), "voluntary_ctxt_switches")
	}
	var cpu unix.Timespec
	// The clock of another process, as of clock_getcpuclockid(3): finer than
	// the ticks in /proc.
	clock := int32(^pid<<3 | 2) //nolint:gosec // G115: process IDs have 22 bits
	if err := unix.ClockGettime(clock, &cpu); err != nil {
		return u, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	u.CPU = time.Duration(cpu.Nano())
	return u, nil
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
