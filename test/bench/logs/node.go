// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// serviceProgram is the argv[0] of the log service.
	serviceProgram = "/ko-app/logs"
	// shipperProgram is that of the process that sends.
	shipperProgram = "entrypointer-shipper"
)

// processes are those of this machine that have such an argv.
func processes(match func(argv []string) bool) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		cmdline, err := os.ReadFile(file)
		if err != nil || len(cmdline) == 0 {
			continue // it has ended, or is the kernel's
		}
		if argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00"); match(argv) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// containersOf are the first processes of a pod's containers: the entrypoints, or the
// printers themselves.
func containersOf(namespace, name string) (pids []int, err error) {
	for _, pid := range processes(func(argv []string) bool { return slices.Contains(argv, namespace+"/"+name) }) {
		first, err := isFirst(pid)
		if err != nil {
			return nil, err
		}
		if first {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("looking for the processes of pod %q: there are none; does this run on the node?", name)
	}
	return pids, nil
}

// isFirst tells whether a process is PID 1 of a container.
func isFirst(pid int) (bool, error) {
	ids, err := statusOf(pid, "NSpid")
	return len(ids) > 1 && ids[len(ids)-1] == "1", err
}

// shippersOf are the processes that send what those entrypoints have taken.
func shippersOf(entrypoints []int) (pids []int) {
	for _, pid := range processes(func(argv []string) bool { return argv[0] == shipperProgram }) {
		if parent, err := statusOf(pid, "PPid"); err == nil && len(parent) == 1 {
			if of, _ := strconv.Atoi(parent[0]); slices.Contains(entrypoints, of) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// statusOf is a field of a process's status.
func statusOf(pid int, name string) ([]string, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has ended
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(value), nil
		}
	}
	return nil, err
}

// serviceUsage is what the log service takes.
func serviceUsage() (framework.Usage, error) {
	pids := processes(func(argv []string) bool { return argv[0] == serviceProgram })
	if len(pids) != 1 {
		return framework.Usage{}, fmt.Errorf("looking for the log service's process: there are %d; does this run on the node?", len(pids))
	}
	return framework.UsageOf(pids[0])
}

// usage adds up what processes take.
func usage(pids []int) (sum framework.Usage, err error) {
	for _, pid := range pids {
		u, err := framework.UsageOf(pid)
		if err != nil {
			return sum, fmt.Errorf("looking at process %d: %w", pid, err)
		}
		sum.RSSAnon += u.RSSAnon
		sum.RSS += u.RSS
		sum.CPU += u.CPU
	}
	return sum, nil
}

// ends waits until processes have ended, and returns when each did, sorted.
func ends(pids []int) ([]time.Time, error) {
	times := make([]time.Time, 0, len(pids))
	var polled []unix.PollFd
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, fmt.Errorf("waiting for process %d: %w", pid, err)
		}
		defer func() { _ = unix.Close(fd) }()
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) //nolint:gosec // G115: a descriptor
	}
	for start := time.Now(); len(polled) > 0; {
		if _, err := unix.Poll(polled, 1000); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("waiting for processes: %w", err)
		}
		polled = slices.DeleteFunc(polled, func(p unix.PollFd) bool {
			if p.Revents != 0 {
				times = append(times, time.Now())
			}
			return p.Revents != 0
		})
		if time.Since(start) > patience {
			return nil, fmt.Errorf("waiting for processes: %d are there after %v", len(polled), patience)
		}
	}
	return times, nil
}
