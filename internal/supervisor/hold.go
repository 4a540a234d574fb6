// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
)

// A held command is one that waits for its turn itself, by a look at intervals,
// and was started before it (-hold), because its start may take longer than all
// else. It is stopped while it sleeps between two looks, and continued when its
// turn has come. By then the next look is due, if it was stopped for an interval
// or more, so it looks at once, and decides itself, as ever.
type held struct {
	pid int // 0 if the command isn't started yet
	// due is when its next look is at the latest, if it was stopped before any of
	// the files was there; else it is zero.
	due time.Time
}

const (
	// quiet is for how long a process uses no processor if it sleeps until its
	// next look.
	quiet = 10 * time.Millisecond
	// soon is less than the start of a command that is worth holding.
	soon = 40 * time.Millisecond
	// oneLook is the shortest time to wait.
	oneLook = time.Nanosecond
)

// holds reports whether to start the command before its turn. What comes before
// the command has to wait for its turn as well, and the terminal is for one whose
// turn it is.
func (o *options) holds() bool {
	return o.hold != 0 && len(o.wait.All) > 0 && o.hooks == nil && o.env.files == nil &&
		!slices.Contains(o.pause, pauseBeforeStart) && !foregroundTerminal().ours()
}

// hold starts the command, unless it is its turn already, stops it, and returns
// when it is its turn, or when it has ended.
func (s *supervision) hold(argv, env []string) error {
	result, _ := s.waiter.Wait(oneLook)
	if result == await.TimedOut {
		pid, err := start(argv, env, inherited, childAttr(terminal{}))
		if err != nil {
			return err
		}
		s.held.pid = pid
		s.waiter.Interrupt = func() bool { return happened(pid, unix.WEXITED) }
		if result = s.stopHeld(); result == await.TimedOut {
			result, _ = s.waiter.Wait(s.opts.waitLimit)
		}
	}
	s.passedOver = result == await.Aborted || result == await.Unknown
	if time.Until(s.held.due) > soon && happened(s.held.pid, unix.WSTOPPED) && !s.preparesSharedly() {
		// It hasn't seen anything yet, and starts anew in less time than is left.
		return s.dropHeld()
	}
	return nil
}

// stopHeld stops the held command, and returns TimedOut if that is done before it is
// its turn.
func (s *supervision) stopHeld() await.Result {
	// Less and less often, for it may be busy for long.
	for pause := quiet; ; pause = min(pause*3/2, time.Second) {
		used := processorTime(s.held.pid)
		if result, _ := s.waiter.Wait(pause); result != await.TimedOut {
			return result
		}
		if used == processorTime(s.held.pid) && sleeps(s.held.pid) {
			break
		}
	}
	_ = syscall.Kill(s.held.pid, syscall.SIGSTOP)
	for range 100 { // or the kernel doesn't tell
		if happened(s.held.pid, unix.WSTOPPED) {
			due := time.Now().Add(s.opts.hold)
			result, _ := s.waiter.Wait(oneLook)
			if result == await.TimedOut {
				s.held.due = due
			}
			return result
		}
		if result, _ := s.waiter.Wait(time.Millisecond); result != await.TimedOut {
			return result
		}
	}
	return await.TimedOut
}

// continueHeld continues the held command, if there is one, stopped or not.
func (s *supervision) continueHeld() {
	if s.held.pid != 0 {
		_ = syscall.Kill(s.held.pid, syscall.SIGCONT)
	}
}

// dropHeld ends the held command.
func (s *supervision) dropHeld() error {
	_ = syscall.Kill(s.held.pid, syscall.SIGKILL)
	_, err := reap(s.held.pid, terminal{})
	s.held = held{}
	return err
}

// happened reports whether a child has done what waitid(2) with these options would
// tell, and leaves it to be told.
func happened(pid, options int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// processorTime is what a process has used, as precise as clock_getcpuclockid(3)
// has it; 0 if the kernel doesn't tell.
func processorTime(pid int) time.Duration {
	const scheduler = 2
	var used unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduler), &used) != nil { //nolint:gosec // G115: process IDs have 22 bits
		return 0
	}
	return time.Duration(used.Nano())
}

// sleeps reports whether all threads of a process do. One that is runnable, but
// may not run, because other processes do or its container's share is used up,
// doesn't.
func sleeps(pid int) bool {
	threads, _ := readDirectory("/proc/" + strconv.Itoa(pid) + "/task")
	return !slices.ContainsFunc(threads, func(thread string) bool {
		return parseStat(readProc(pid, "task/"+thread+"/stat")).state != 'S'
	})
}
