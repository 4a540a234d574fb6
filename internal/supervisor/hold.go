// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
)

// A held command is one that waits for its turn itself, by a look at intervals,
// and was started before it (-hold), because its start may take longer than all
// else. It is stopped while it sleeps between two looks, and continued when its
// turn has come. By then the next look is due, if it was stopped for an interval
// or more, so it looks at once, and decides itself, as ever.
//
// What can't be seen, because /proc can't be read, isn't stopped.
type heldCommand struct {
	*process
	stage     stage
	began     time.Time     // when it was started
	startTook time.Duration // what that took, until it slept
	cpuUsed   time.Duration // the processor time that it has used
	stopSent  time.Time     // when it was sent SIGSTOP
	// due is when its next look is at the latest, if it was stopped before any of
	// the files was there; else it is zero.
	nextLook time.Time
}

// A stage is how far a held command has come.
type stage int

const (
	stageStarting stage = iota
	stageStopping       // was sent SIGSTOP
	stageStopped
)

const (
	// quiet is for how long a process uses no processor if it sleeps until its next
	// look. What becomes of it if the file appears meanwhile isn't ours to say.
	idleInterval = 2 * time.Millisecond
	// stopTakes is how long a stop may take, or the kernel doesn't tell.
	stopTimeout = 100 * time.Millisecond
)

// hold starts the command, unless it is its turn already, stops it, and returns
// when it is its turn, or when it has ended.
func (s *supervision) startHeld(argv, env []string, shared bool) error {
	turn := s.waiter.Look()
	if turn == await.Waiting {
		s.killsBefore = s.countOOMKills()
		p, err := s.start(argv, env, s.stdio(0), childAttr(terminal{}))
		if err != nil {
			return err
		}
		s.held = heldCommand{process: p, began: time.Now(), cpuUsed: -1}
		err = s.until(func() time.Duration {
			if turn = s.waiter.Look(); turn != await.Waiting || p.ended {
				return done
			}
			return min(s.waiter.Pause(), s.held.advance(s.opts.wait, s.opts.hold))
		})
		if err != nil {
			return err
		}
	}
	if err := s.concludeTurn(turn); err != nil {
		return err
	}
	if !shared && s.held.restartIsFaster() && s.held.isUndisturbed() {
		return s.dropHeld()
	}
	return nil
}

// startsSooner reports whether to start anew takes less than what is left until the
// next look. Both are times on a clock: a container's share of the processors may
// make a start take much longer than the processor time that it uses.
func (h *heldCommand) restartIsFaster() bool { return time.Until(h.nextLook) > h.startTook }

// advance takes the command to its next stage, if it can, and returns when to try
// again.
func (h *heldCommand) advance(files await.Files, interval time.Duration) time.Duration {
	switch h.stage {
	case stageStarting:
		used, known := cpuTime(h.pid)
		if known && used == h.cpuUsed && allThreadsAre(stateSleeping, h.pid) {
			_ = syscall.Kill(h.pid, syscall.SIGSTOP)
			h.stage, h.stopSent = stageStopping, time.Now()
			h.startTook = h.stopSent.Sub(h.began)
			return time.Millisecond
		}
		h.cpuUsed = used
		// Not as often where the start takes long, or something else.
		return min(max(idleInterval, time.Since(h.began)/32), time.Second)
	case stageStopping:
		if allThreadsAre(stateStopped, h.pid) {
			h.stage = stageStopped
			due := time.Now().Add(interval)
			if state, err := files.Look(); state == await.Waiting && err == nil {
				h.nextLook = due
				h.cpuUsed, _ = cpuTime(h.pid)
			}
		} else if time.Since(h.stopSent) < stopTimeout {
			return time.Millisecond
		}
	}
	return forever
}

// isUntouched reports whether nobody but us has had to do with the held command
// since it was stopped: it is stopped still, hasn't run, and has no signal to take;
// and whether it has written nothing, for a line would be printed twice.
func (h *heldCommand) isUndisturbed() bool {
	// A thread may use a little after its stop was told.
	const little = 100 * time.Microsecond
	used, known := cpuTime(h.pid)
	return known && used-h.cpuUsed < little && allThreadsAre(stateStopped, h.pid) &&
		!mayHaveWritten(readProc(h.pid, "io")) && !mayHavePending(readProc(h.pid, "status"))
}

// continueHeld continues the held command, stopped or not. If we were brought to
// the front since, it is now.
func (s *supervision) continueHeld() {
	if s.term.isOurs() {
		s.term.setForeground(s.held.pid)
	}
	_ = syscall.Kill(s.held.pid, syscall.SIGCONT)
}

// dropHeld ends the held command, and what it may have started.
func (s *supervision) dropHeld() error {
	p := s.held.process
	s.held = heldCommand{}
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
