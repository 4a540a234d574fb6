// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"strconv"
	"strings"
)

// oomFiles contain the number of processes of a cgroup that the kernel has killed for
// lack of memory, in cgroup v2 and v1. A container sees its own cgroup at these paths.
var oomFiles = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// OOMKills returns the number of processes of this container that the kernel has killed
// for lack of memory, or 0 if it can't be read.
func OOMKills() int {
	for _, name := range oomFiles {
		if data, err := ReadFile(name, 4<<10); err == nil {
			return parseOOMKills(string(data))
		}
	}
	return 0
}

// parseOOMKills parses the line "oom_kill N".
func parseOOMKills(data string) int {
	for line := range strings.SplitSeq(data, "\n") {
		if value, found := strings.CutPrefix(line, "oom_kill "); found {
			n, _ := strconv.Atoi(value) // an invalid number counts as 0
			return n
		}
	}
	return 0
}
