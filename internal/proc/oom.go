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

// OOMKillsOne reports whether the kernel, when it kills a process of this container for lack
// of memory, leaves the others alone. With cgroup v2, a kubelet has it kill all of them
// (memory.oom.group), unless it is configured with singleProcessOOMKill. The answer is false if
// that can't be read.
func OOMKillsOne() bool {
	data, err := ReadFile("/proc/self/cgroup", 64<<10)
	if err != nil {
		return false
	}
	v1, path := memoryCgroup(string(data))
	if v1 {
		return true
	}
	group, err := ReadFile("/sys/fs/cgroup"+path+"/memory.oom.group", 4)
	return err == nil && string(group) == "0\n"
}

// memoryCgroup parses cgroups(7) of a process: whether memory belongs to cgroup v1, and the
// path of the process in v2. In a cgroup namespace, which privileged containers may lack,
// the path is that from the container's own cgroup.
func memoryCgroup(data string) (v1 bool, path string) {
	for line := range strings.Lines(data) {
		_, line, _ = strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, name, _ := strings.Cut(line, ":")
		switch {
		case strings.Contains(","+controllers+",", ",memory,"):
			return true, ""
		case controllers == "":
			path = name
		}
	}
	return false, path
}
