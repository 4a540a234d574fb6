// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The functions of this file read /proc. A container may have no /proc, or one that
// hides other users' processes. So each function also has a result for what it can't
// read.

// readProcLink returns the target of a symbolic link in /proc, or "" if it can't be
// read.
func readProcLink(process, name string) string {
	target, _ := os.Readlink(strings.TrimSuffix("/proc/"+process+"/"+name, "/"))
	return target
}

func readProc(pid int, name string) string {
	data, _ := readFile("/proc/"+strconv.Itoa(pid)+"/"+name, 4<<20)
	return string(data)
}

// processIDs returns the IDs of all visible processes.
func processIDs() (list []int) {
	names, _ := readDirectory("/proc")
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

func childrenOf(parent int) (list []int) {
	for _, pid := range processIDs() {
		if stat := readStat(pid); stat.parent == parent && stat.state != 'Z' {
			list = append(list, pid)
		}
	}
	return list
}

// stat is a part of /proc/PID/stat (proc_pid_stat(5)), or zero if that can't be read.
type stat struct {
	parent, group, session int

	state byte
	start uint64 // clock ticks since boot
}

func readStat(pid int) stat { return parseStat(readProc(pid, "stat")) }

func parseStat(line string) stat {
	// The process name, in parentheses, may contain any character.
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return stat{}
	}
	s := stat{state: fields[0][0]}
	s.parent, _ = strconv.Atoi(fields[1])
	s.group, _ = strconv.Atoi(fields[2])
	s.session, _ = strconv.Atoi(fields[3])
	s.start, _ = strconv.ParseUint(fields[19], 10, 64)
	return s
}

// ticksPerSecond is USER_HZ, which is 100 on all architectures of Linux.
const ticksPerSecond = 100

func (s stat) startTime() time.Time {
	var sinceBoot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) != nil {
		return time.Time{}
	}
	age := time.Duration(sinceBoot.Nano()) - time.Duration(s.start)*(time.Second/ticksPerSecond) //nolint:gosec // centuries
	return time.Now().Add(-age)
}

// States of a thread in proc_pid_stat(5).
const (
	stateSleeping = 'S'
	stateStopped  = 'T'
)

// allThreadsAre reports whether all threads of a process are visibly in this state. A
// thread that is ready to run and waits for a CPU isn't in the sleeping state.
func allThreadsAre(state byte, pid int) bool {
	threads, err := readDirectory("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		if parseStat(readProc(pid, "task/"+thread+"/stat")).state != state {
			return false
		}
	}
	return true
}

// mayHavePending reports whether a process may have a pending signal. status is the
// text of proc_pid_status(5).
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

// mayHaveWritten reports whether a process may have written to any descriptor. io is
// the text of proc_pid_io(5).
func mayHaveWritten(io string) bool {
	for line := range strings.Lines(io) {
		if line == "wchar: 0\n" {
			return false
		}
	}
	return true
}

// cpuTime returns the CPU time that a process has used, by the clock of
// clock_getcpuclockid(3), and false if the kernel doesn't provide it.
func cpuTime(pid int) (used time.Duration, known bool) {
	const scheduler = 2
	var clock unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduler), &clock) //nolint:gosec // G115: process IDs have 22 bits
	return time.Duration(clock.Nano()), err == nil
}
