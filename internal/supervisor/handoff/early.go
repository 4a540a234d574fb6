// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package handoff

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
)

// An Early is a command that polls for its turn itself (Tekton's entrypoint) and
// was started early (-hold), because its start may take longer than everything else.
// The supervisor stops it with SIGSTOP while it sleeps between two polls, and continues
// it at its turn. If it was stopped for a poll interval or longer, its next poll is due
// by then. So it polls at once, and still decides itself when to go on.
//
// If /proc can't be read, the command isn't stopped.
type Early struct {
	*life.Process
	silent    bool // it prints nothing before its turn, also where the kernel hides that
	stage     stage
	began     time.Time     // when it was started
	startTook time.Duration // time from its start until it slept
	cpuUsed   time.Duration // CPU time that it has used
	stopSent  time.Time     // when it was sent SIGSTOP
	// nextPoll is the latest time of its next poll if it had nothing to find yet when it
	// was stopped, and otherwise zero.
	nextPoll time.Time
}

// A stage is how far the supervisor has come with an early command.
type stage int

const (
	stageStarting stage = iota
	stageStopping       // SIGSTOP was sent
	stageStopped
)

const (
	// idleInterval is the time without CPU use after which a sleeping process counts as
	// one that sleeps until its next poll. If a file of others appears in that time, the
	// command's own poll decides; the supervisor's own file is written after it.
	idleInterval = 2 * time.Millisecond
	// stopTimeout limits how long to look for the effect of SIGSTOP, which /proc may
	// not show.
	stopTimeout = 100 * time.Millisecond
)

// restartIsFaster reports whether a new start would take less time than is left until
// the next poll. Both are wall-clock times: with a small CPU share, a start takes much
// longer than its CPU time.
func (h *Early) restartIsFaster() bool { return time.Until(h.nextPoll) > h.startTook }

// isGoingToSleep reports whether the command has just gone to sleep, and is about to be
// stopped.
func (h *Early) isGoingToSleep() bool {
	return h.stage == stageStarting && proc.AllThreadsAre(proc.Sleeping, h.PID) ||
		h.stage == stageStopping && time.Since(h.stopSent) < stopTimeout
}

// advance moves the command to its next stage if possible, and returns the time until
// the next call. mayFind reports whether a poll of the command would find that its turn
// has come.
func (h *Early) advance(mayFind func() bool, interval time.Duration) time.Duration {
	switch h.stage {
	case stageStarting:
		used, known := proc.CPUTime(h.PID)
		if known && used == h.cpuUsed && proc.AllThreadsAre(proc.Sleeping, h.PID) {
			_ = syscall.Kill(h.PID, syscall.SIGSTOP)
			h.stage, h.stopSent = stageStopping, time.Now()
			h.startTook = h.stopSent.Sub(h.began)
			return time.Millisecond
		}
		h.cpuUsed = used
		// A start that takes long is checked less often.
		return min(max(idleInterval, time.Since(h.began)/32), time.Second)
	case stageStopping:
		if proc.AllThreadsAre(proc.Stopped, h.PID) {
			h.stage = stageStopped
			due := time.Now().Add(interval)
			if !mayFind() {
				h.nextPoll = due
				h.cpuUsed, _ = proc.CPUTime(h.PID)
			}
		} else if time.Since(h.stopSent) < stopTimeout {
			return time.Millisecond
		}
	}
	return life.Forever
}

// isUndisturbed reports whether the early command can be dropped without a trace since
// it was stopped: it is still stopped, hasn't run, and has no pending signal. It must
// not have written anything either, because a new start would write that again.
func (h *Early) isUndisturbed() bool {
	// A thread may use some CPU time after it is reported as stopped.
	const little = 100 * time.Microsecond
	used, known := proc.CPUTime(h.PID)
	written, told := proc.HasWritten(h.PID)
	return known && used-h.cpuUsed < little && proc.AllThreadsAre(proc.Stopped, h.PID) &&
		!written && (told || h.silent) && !proc.MayHavePending(h.PID)
}
