// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
)

// prepare does what comes before the command, and returns its environment.
func (s *supervision) prepare(argv []string) (env []string, err error) {
	env, err = s.opts.env.exceptFiles().apply(environ())
	if err != nil {
		return nil, err
	}
	if s.opts.inOrder() { // so that a signal ends the wait, and those that wait are told
		s.takeOverSignals()
	}
	if s.isUnneeded() {
		return nil, errUnneeded
	}
	if err := s.awaitConditions(); err != nil {
		return nil, err
	}
	env, err = s.takeTurn(argv, env)
	for err == nil && s.lostReader() {
		err = s.awaitConditions()
	}
	return env, err
}

// takeTurn does what comes after the wait for other containers, with the environment as
// far as it can be made at any time.
func (s *supervision) takeTurn(argv, env []string) (_ []string, err error) {
	shared := s.preparesInSharedVolume(env)
	late := len(s.opts.env.files) > 0 // an earlier step may write them
	if late && shared {
		say("reading variables from " + strconv.Quote(s.opts.env.files[0]) + " when the pod starts, and not when it is this step's turn: " +
			s.opts.waitUnlessShared + " is a volume, where the step has to begin early: set " + s.opts.waitUnlessShared + " to a directory of the image")
		late = false
		if env, err = s.opts.env.apply(environ()); err != nil {
			return nil, err
		}
	}
	switch {
	case s.canStartHeld(shared, late):
		s.publishWaiting()
		err = s.startHeld(argv, env, shared)
	case !shared:
		err = s.awaitTurn()
	}
	s.waiter.Close()
	if !s.opts.inOrder() {
		s.takeOverSignals()
	}
	if err != nil || s.waitAborted || s.held.process != nil && s.held.ended {
		return env, s.endHeld(err)
	}
	if late {
		if env, err = s.opts.env.apply(environ()); err != nil {
			return nil, err
		}
	}
	return env, s.endHeld(s.beforeStart(env))
}

// beforeStart does what is asked for between the turn and the start.
func (s *supervision) beforeStart(env []string) error {
	if err := s.runHooks(env); err != nil {
		return err
	}
	if sig := s.pauseAt(pauseBeforeStart); sig != 0 {
		return stoppedBy(sig, "the pause before its start")
	}
	return nil
}

// endHeld ends a held command if an error is why it won't be its turn, and returns
// that.
func (s *supervision) endHeld(err error) error {
	if err == nil || s.held.process == nil {
		return err
	}
	_ = s.dropHeld()
	return err
}

// holds reports whether to start the command before its turn. What comes before
// the command has to wait for its turn as well, and so then has the command, unless
// it has to begin early. The terminal is for one whose turn it is.
func (s *supervision) canStartHeld(shared, late bool) bool {
	between := s.opts.hooks != nil || late || slices.Contains(s.opts.pause, pauseBeforeStart)
	return s.opts.hold != 0 && len(s.opts.wait.All) > 0 && (shared || !between) && !foregroundTerminal().isOurs()
}

// preparesSharedly reports whether the command does something before it waits
// that other containers may see.
func (s *supervision) preparesInSharedVolume(env []string) bool {
	if s.opts.waitUnlessShared == "" {
		return false
	}
	dir, set := getenv(env, s.opts.waitUnlessShared)
	return set && mayBeShared(dir)
}

// awaitTurn waits for the files that say that it is the command's turn.
func (s *supervision) awaitTurn() error {
	if len(s.opts.wait.All) == 0 {
		return nil
	}
	s.publishWaiting()
	var turn await.State
	var end syscall.Signal
	err := s.until(func() time.Duration {
		if end = pendingEndSignal(); end != 0 { // none comes before signals are the command's
			return done
		}
		if turn = s.waiter.Look(); turn != await.Waiting {
			return done
		}
		return s.waiter.Pause()
	})
	if err != nil {
		return err
	}
	if end != 0 {
		return stoppedBy(end, "the wait for "+s.opts.wait.All[0].Path)
	}
	return s.concludeTurn(turn)
}

func (s *supervision) publishWaiting() {
	s.setPhase(phaseWaiting)
	for _, file := range s.opts.wait.All {
		s.event(EventWaiting, file.Path, 0)
	}
}

// hasTurned takes note of how the waiting ended. If the files can't be looked at,
// a command with nothing of ours before it is started all the same: it looks for
// them itself, and knows better what to do about it. With a hook, or the like, the
// command must not run without that.
func (s *supervision) concludeTurn(turn await.State) error {
	s.waitAborted = turn == await.Aborted
	s.event(EventWaited, "", int(turn))
	if turn != await.Unknown {
		return nil
	}
	text := s.waiter.Err().Error() + ": mount its volume into this container, and let the container's user read it"
	if s.opts.hooks != nil || s.opts.env.files != nil || slices.Contains(s.opts.pause, pauseBeforeStart) {
		return ownFailure(text + "; the command was not started")
	}
	say(text)
	s.waitAborted = true
	return nil
}

// takeOver makes signals the command's from here on, and its orphans ours. One that
// comes while we wait for our turn has the effect that it has on Tekton's
// entrypoint, which is a Go program, too, and does nothing about signals while it
// waits.
func (s *supervision) takeOverSignals() {
	if s.opts.mode == modeSupervise || s.opts.hooks != nil || s.opts.pause != nil || s.opts.inOrder() {
		s.registerStopSignal()
		catchSignals()
	}
	if s.opts.mode == modeSupervise && os.Getpid() != 1 {
		// PID 1 inherits orphans by nature. In mode exec they would be the
		// command's, which doesn't expect them.
		becomeSubreaper()
	}
}
