// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package proc reads what the kernel says of processes, and small files.
//
// A container may have no /proc, or one that hides other users' processes. So each
// function also has a result for what it can't read.
package proc

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Link returns the target of a symbolic link in /proc, or "" if it can't be read.
func Link(process, name string) string {
	target, _ := os.Readlink(strings.TrimSuffix("/proc/"+process+"/"+name, "/"))
	return target
}

// Read returns the text of /proc/PID/name, or "" if it can't be read.
func Read(pid int, name string) string {
	data, _ := ReadFile("/proc/"+strconv.Itoa(pid)+"/"+name, 4<<20)
	return string(data)
}

// IDs returns the IDs of all visible processes.
func IDs() (list []int) {
	names, _ := ReadDirectory("/proc")
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// Children returns the IDs of the visible children of a process that have not ended.
func Children(parent int) (list []int) {
	for _, pid := range IDs() {
		if stat := ReadStat(pid); stat.Parent == parent && stat.state != 'Z' {
			list = append(list, pid)
		}
	}
	return list
}

// Stat is a part of /proc/PID/stat (proc_pid_stat(5)), or zero if that can't be read.
type Stat struct {
	Parent, Group, Session int

	Start uint64 // clock ticks since boot

	state byte
}

// ReadStat returns the Stat of a process.
func ReadStat(pid int) Stat { return parseStat(Read(pid, "stat")) }

func parseStat(line string) Stat {
	// The process name, in parentheses, may contain any character.
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return Stat{}
	}
	s := Stat{state: fields[0][0]}
	s.Parent, _ = strconv.Atoi(fields[1])
	s.Group, _ = strconv.Atoi(fields[2])
	s.Session, _ = strconv.Atoi(fields[3])
	s.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	return s
}

// ticksPerSecond is USER_HZ, which is 100 on all architectures of Linux.
const ticksPerSecond = 100

// StartTime returns when the process was started, or zero if the kernel doesn't provide
// its clock.
func (s Stat) StartTime() time.Time {
	var sinceBoot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) != nil {
		return time.Time{}
	}
	age := time.Duration(sinceBoot.Nano()) - time.Duration(s.Start)*(time.Second/ticksPerSecond) //nolint:gosec // centuries
	return time.Now().Add(-age)
}

// States of a thread in proc_pid_stat(5).
const (
	Sleeping = 'S'
	Stopped  = 'T'
)

// AllThreadsAre reports whether all threads of a process are visibly in this state. A
// thread that is ready to run and waits for a CPU isn't in the sleeping state.
func AllThreadsAre(state byte, pid int) bool {
	threads, err := ReadDirectory("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		if parseStat(Read(pid, "task/"+thread+"/stat")).state != state {
			return false
		}
	}
	return true
}

// MayHavePending reports whether a process may have a pending signal.
func MayHavePending(pid int) bool { return mayHavePending(Read(pid, "status")) }

// mayHavePending takes the text of proc_pid_status(5).
func mayHavePending(status string) bool {
	seen := 0
	for line := range strings.Lines(status) {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		seen++
		if strings.Trim(mask, "0 \t\n") != "" {
			return true
		}
	}
	return seen < 2
}

// HasWritten reports whether a process has written to any descriptor. It isn't known of a
// program that its user may not read: the kernel hides what such a process does.
func HasWritten(pid int) (has, known bool) { return hasWritten(Read(pid, "io")) }

// hasWritten takes the text of proc_pid_io(5).
func hasWritten(io string) (has, known bool) {
	for line := range strings.Lines(io) {
		if count, is := strings.CutPrefix(line, "wchar: "); is {
			return count != "0\n", true
		}
	}
	return false, false
}

// CPUTime returns the CPU time that a process has used, by the clock of
// clock_getcpuclockid(3), and false if the kernel doesn't provide it.
func CPUTime(pid int) (used time.Duration, known bool) {
	const scheduler = 2
	var clock unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduler), &clock) //nolint:gosec // G115: process IDs have 22 bits
	return time.Duration(clock.Nano()), err == nil
}
