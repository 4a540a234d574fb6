// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// An earlyCommand is a command that polls for its turn itself (Tekton's entrypoint) and
// was started early (-hold), because its start may take longer than everything else.
// The supervisor stops it with SIGSTOP while it sleeps between two polls, and continues
// it at its turn. If it was stopped for a poll interval or longer, its next poll is due
// by then. So it polls at once, and still decides itself when to go on.
//
// If /proc can't be read, the command isn't stopped.
type earlyCommand struct {
	*process
	stage     stage
	began     time.Time     // when it was started
	startTook time.Duration // time from its start until it slept
	cpuUsed   time.Duration // CPU time that it has used
	stopSent  time.Time     // when it was sent SIGSTOP
	// nextPoll is the latest time of its next poll if none of the files existed when it
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
	// one that sleeps until its next poll. If a file appears in that time, the
	// command's own poll decides.
	idleInterval = 2 * time.Millisecond
	// stopTimeout limits how long to look for the effect of SIGSTOP, which /proc may
	// not show.
	stopTimeout = 100 * time.Millisecond
)

// startEarly starts the command and stops it, unless its turn has already come. It
// returns at the command's turn, or when the command has ended.
func (s *supervision) startEarly(argv, env []string, shared bool) error {
	turn := s.waiter.Look()
	if turn == await.Waiting {
		s.killsBefore = s.countOOMKills()
		p, err := s.start(argv, env, s.stdio(0), childAttr(terminal.Terminal{}))
		if err != nil {
			return err
		}
		s.early = earlyCommand{process: p, began: time.Now(), cpuUsed: -1}
		err = s.until(func() time.Duration {
			if turn = s.waiter.Look(); turn != await.Waiting || p.ended {
				return done
			}
			return min(s.waiter.Pause(), s.early.advance(s.opts.wait, s.opts.hold))
		})
		if err != nil {
			return err
		}
	}
	if err := s.concludeTurn(turn); err != nil {
		return err
	}
	if !shared && s.early.restartIsFaster() && s.early.isUndisturbed() {
		return s.dropEarly()
	}
	return nil
}

// restartIsFaster reports whether a new start would take less time than is left until
// the next poll. Both are wall-clock times: with a small CPU share, a start takes much
// longer than its CPU time.
func (h *earlyCommand) restartIsFaster() bool { return time.Until(h.nextPoll) > h.startTook }

// advance moves the command to its next stage if possible, and returns the time until
// the next call.
func (h *earlyCommand) advance(files await.Files, interval time.Duration) time.Duration {
	switch h.stage {
	case stageStarting:
		used, known := proc.CPUTime(h.pid)
		if known && used == h.cpuUsed && proc.AllThreadsAre(proc.Sleeping, h.pid) {
			_ = syscall.Kill(h.pid, syscall.SIGSTOP)
			h.stage, h.stopSent = stageStopping, time.Now()
			h.startTook = h.stopSent.Sub(h.began)
			return time.Millisecond
		}
		h.cpuUsed = used
		// A start that takes long is checked less often.
		return min(max(idleInterval, time.Since(h.began)/32), time.Second)
	case stageStopping:
		if proc.AllThreadsAre(proc.Stopped, h.pid) {
			h.stage = stageStopped
			due := time.Now().Add(interval)
			if state, err := files.Look(); state == await.Waiting && err == nil {
				h.nextPoll = due
				h.cpuUsed, _ = proc.CPUTime(h.pid)
			}
		} else if time.Since(h.stopSent) < stopTimeout {
			return time.Millisecond
		}
	}
	return forever
}

// isUndisturbed reports whether the early command can be dropped without a trace since
// it was stopped: it is still stopped, hasn't run, and has no pending signal. It must
// not have written anything either, because a new start would write that again.
func (h *earlyCommand) isUndisturbed() bool {
	// A thread may use some CPU time after it is reported as stopped.
	const little = 100 * time.Microsecond
	used, known := proc.CPUTime(h.pid)
	return known && used-h.cpuUsed < little && proc.AllThreadsAre(proc.Stopped, h.pid) &&
		!proc.MayHaveWritten(h.pid) && !proc.MayHavePending(h.pid)
}

// continueEarly continues the early command, whether it is stopped or not. If a shell has
// moved the supervisor to the terminal's foreground meanwhile, the command gets that
// place.
func (s *supervision) continueEarly() {
	if s.term.IsOurs() {
		s.term.SetForeground(s.early.pid)
	}
	_ = syscall.Kill(s.early.pid, syscall.SIGCONT)
}

// dropEarly kills the early command and its process group.
func (s *supervision) dropEarly() error {
	p := s.early.process
	s.early = earlyCommand{}
	if !p.ended {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return s.until(func() time.Duration {
		if p.ended {
			return done
		}
		return forever
	})
}
