// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

type process struct {
	pid     int
	command string
}

// ancestry returns the processes from the first of this PID namespace down to
// pid, as far as /proc shows them.
func ancestry(pid int) []process {
	var line []process
	for pid > 0 {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			break
		}
		line = append(line, process{pid: pid, command: printable(cmdline)})
		pid = parentOf(pid)
	}
	slices.Reverse(line)
	return line
}

// printable puts spaces where the kernel has NULs, and keeps it to one line.
func printable(cmdline []byte) string {
	text := strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")
	return strings.ReplaceAll(text, "\n", " ")
}

func parentOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var parent int
		if n, _ := fmt.Sscanf(line, "PPid: %d", &parent); n == 1 {
			return parent
		}
	}
	return 0
}
