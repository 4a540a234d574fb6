// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strconv"
	"strings"
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
	// used is the processor time that it took to start.
	used time.Duration
}

const (
	// quiet is for how long a process uses no processor if it sleeps until its next
	// look. What becomes of it if the file appears meanwhile isn't ours to say.
	quiet = 2 * time.Millisecond
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
		s.killsBefore = s.countOOMKills()
		pid, err := start(argv, env, inherited, childAttr(terminal{}))
		if err != nil {
			return err
		}
		s.held.pid = pid
		s.waiter.Interrupt = func() bool {
			ended, err := happened(pid, unix.WEXITED)
			return ended || err != nil // or it is better left alone
		}
		if result = s.stopHeld(); result == await.TimedOut {
			result, _ = s.waiter.Wait(0)
		}
	}
	s.passedOver = result == await.Aborted || result == await.Unknown
	if time.Until(s.held.due) > s.held.used && s.heldIsUntouched() && !s.preparesSharedly() {
		// To start anew takes less than what is left.
		return s.dropHeld()
	}
	return nil
}

// stopHeld stops the held command, and returns TimedOut if that is done before it is
// its turn.
func (s *supervision) stopHeld() await.Result {
	for began, used := time.Now(), time.Duration(-1); ; {
		before := used
		if used = processorTime(s.held.pid); used == before && sleeps(s.held.pid) {
			break
		}
		// Not as often where the start takes long, or something else.
		if result, _ := s.waiter.Wait(min(max(quiet, time.Since(began)/32), time.Second)); result != await.TimedOut {
			return result
		}
	}
	_ = syscall.Kill(s.held.pid, syscall.SIGSTOP)
	for range 100 { // or the kernel doesn't tell
		if stopped, _ := happened(s.held.pid, unix.WSTOPPED); stopped {
			due := time.Now().Add(s.opts.hold)
			result, _ := s.waiter.Wait(oneLook)
			if result == await.TimedOut {
				s.held.due, s.held.used = due, processorTime(s.held.pid)
			}
			return result
		}
		if result, _ := s.waiter.Wait(time.Millisecond); result != await.TimedOut {
			return result
		}
	}
	return await.TimedOut
}

// heldIsUntouched reports whether nobody but us has had to do with the held command
// since it was stopped: it is stopped still, hasn't run, and has no signal to take.
func (s *supervision) heldIsUntouched() bool {
	// A thread may use a little after its stop was told.
	const little = 100 * time.Microsecond
	stopped, _ := happened(s.held.pid, unix.WSTOPPED)
	return stopped && processorTime(s.held.pid)-s.held.used < little && !hasPending(readProc(s.held.pid, "status"))
}

// hasPending looks for pending signals in a status of proc_pid_status(5).
func hasPending(status string) bool {
	for line := range strings.Lines(status) {
		name, mask, _ := strings.Cut(line, ":")
		if (name == "SigPnd" || name == "ShdPnd") && strings.Trim(mask, "0 \t\n") != "" {
			return true
		}
	}
	return false
}

// continueHeld continues the held command, if there is one, stopped or not. If we
// were brought to the front since, it is now.
func (s *supervision) continueHeld(term terminal) {
	if s.held.pid == 0 {
		return
	}
	if term.ours() {
		term.setForeground(s.held.pid)
	}
	_ = syscall.Kill(s.held.pid, syscall.SIGCONT)
}

// dropHeld ends the held command, and what it may have started.
func (s *supervision) dropHeld() error {
	_ = syscall.Kill(-s.held.pid, syscall.SIGKILL)
	_ = syscall.Kill(s.held.pid, syscall.SIGKILL)
	_, err := reap(s.held.pid, terminal{})
	s.held = held{}
	return err
}

// happened reports whether a child has done what waitid(2) with these options would
// tell, and leaves it to be told.
func happened(pid, options int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0, err
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
