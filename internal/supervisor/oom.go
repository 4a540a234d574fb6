// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"strings"
)

// oomFiles are where the kernel counts the processes of a cgroup that it has
// killed for want of memory: of cgroup v2, and of v1. A container sees its own
// cgroup there.
var oomFiles = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}

// oomKills returns how many processes of this container the kernel has killed
// for want of memory, 0 if nothing says so.
func oomKills() int {
	for _, name := range oomFiles {
		if data, err := readFile(name, 4<<10); err == nil {
			return parseOOMKills(string(data))
		}
	}
	return 0
}

// parseOOMKills reads the line "oom_kill n".
func parseOOMKills(data string) int {
	for line := range strings.SplitSeq(data, "\n") {
		if value, found := strings.CutPrefix(line, "oom_kill "); found {
			n, _ := strconv.Atoi(value) // what is no number counts as none
			return n
		}
	}
	return 0
}
