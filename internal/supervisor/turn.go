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
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// prepare does everything before the command's start, and returns the command's
// environment.
func (s *supervision) prepare(argv []string) (env []string, err error) {
	env, err = s.opts.env.exceptFiles().apply(environ())
	if err != nil {
		return nil, err
	}
	if s.opts.inOrder() { // so that a signal ends the wait, and dependents learn of it
		s.takeOverSignals()
	}
	if !s.isNeeded() {
		return nil, errUnneeded
	}
	if err := s.awaitConditions(); err != nil {
		return nil, err
	}
	env, err = s.takeTurn(argv, env)
	// What was met may have changed meanwhile, and a reader even since the last look.
	for again := s.tookTime(); err == nil && (again || s.lostReader()); again = false {
		err = s.awaitConditions()
	}
	return env, err
}

// tookTime reports whether something between the wait for other containers and the
// command's start takes time.
func (s *supervision) tookTime() bool {
	return len(s.opts.hooks) > 0 || slices.Contains(s.opts.pause, pauseBeforeStart) || len(s.opts.wait.All) > 0
}

// takeTurn waits for the command's turn and prepares its start, after the wait for
// other containers. env has all edits that don't depend on files.
func (s *supervision) takeTurn(argv, env []string) (_ []string, err error) {
	shared := s.preparesInSharedVolume(env)
	late := len(s.opts.env.files) > 0 // earlier steps may write these files
	if late && shared {
		console.Say("reading variables from " + strconv.Quote(s.opts.env.files[0]) + " at the pod's start instead of the step's turn: " +
			s.opts.waitUnlessShared + " is in a volume, so the step must start early: set " + s.opts.waitUnlessShared + " to a directory of the image")
		late = false
		if env, err = s.opts.env.apply(environ()); err != nil {
			return nil, err
		}
	}
	switch {
	case s.canStartEarly(shared, late):
		s.publishWaiting()
		err = s.startEarly(argv, env, shared)
	case !shared:
		err = s.awaitTurn()
	}
	s.waiter.Close()
	if !s.opts.inOrder() {
		s.takeOverSignals()
	}
	if err != nil || s.waitAborted || s.early.process != nil && s.early.ended {
		return env, s.endEarly(err)
	}
	if late {
		if env, err = s.opts.env.apply(environ()); err != nil {
			return nil, err
		}
	}
	return env, s.endEarly(s.beforeStart(env))
}

// beforeStart runs the hooks and the pause between the turn and the start.
func (s *supervision) beforeStart(env []string) error {
	if err := s.runHooks(env); err != nil {
		return err
	}
	if sig := s.pauseAt(pauseBeforeStart); sig != 0 {
		return outcome.StoppedBy(sig, "the pause before its start")
	}
	return nil
}

// endEarly ends the early command if err is not nil. It returns err.
func (s *supervision) endEarly(err error) error {
	if err == nil || s.early.process == nil {
		return err
	}
	_ = s.dropEarly()
	return err
}

// canStartEarly reports whether the command can be started before its turn. Hooks, a
// pause and late environment files must wait for the turn, and the command for them,
// unless the command must begin early (shared). A command on a terminal isn't started
// early, because only the command at its turn may have the foreground.
func (s *supervision) canStartEarly(shared, late bool) bool {
	between := s.opts.hooks != nil || late || slices.Contains(s.opts.pause, pauseBeforeStart)
	return s.opts.hold != 0 && len(s.opts.wait.All) > 0 && (shared || !between) && !terminal.Foreground().IsOurs()
}

// preparesInSharedVolume reports whether the command, before its own wait, prepares a
// directory that other containers may see (-wait-unless-shared).
func (s *supervision) preparesInSharedVolume(env []string) bool {
	if s.opts.waitUnlessShared == "" {
		return false
	}
	dir, set := getenv(env, s.opts.waitUnlessShared)
	return set && proc.MayBeShared(dir)
}

// awaitTurn waits for the files that announce the command's turn.
func (s *supervision) awaitTurn() error {
	if len(s.opts.wait.All) == 0 {
		return nil
	}
	s.publishWaiting()
	var turn await.State
	var end syscall.Signal
	err := s.until(func() time.Duration {
		if end = s.pendingEnd(); end != 0 { // only signals after takeOverSignals count
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
		return outcome.StoppedBy(end, "the wait for "+s.opts.wait.All[0].Path)
	}
	return s.concludeTurn(turn)
}

func (s *supervision) publishWaiting() {
	s.setPhase(phaseWaiting)
	for _, file := range s.opts.wait.All {
		s.event(EventWaiting, file.Path, 0)
	}
}

// concludeTurn records the result of the wait. If the files can't be examined, the
// command is started anyway: it examines them itself, and can report the error better.
// But with hooks, environment files or a pause, the command must not run without them,
// so concludeTurn returns an error.
func (s *supervision) concludeTurn(turn await.State) error {
	s.waitAborted = turn == await.Aborted
	s.event(EventWaited, "", int(turn))
	if turn != await.Unknown {
		return nil
	}
	text := s.waiter.Err().Error() + ": mount its volume into this container, and let the container's user read it"
	if s.opts.hooks != nil || s.opts.env.files != nil || slices.Contains(s.opts.pause, pauseBeforeStart) {
		return outcome.Own(text + "; the command was not started")
	}
	console.Say(text)
	s.waitAborted = true
	return nil
}

// takeOverSignals forwards signals to the command from here on, and makes the
// supervisor inherit orphans. Until then, a signal has the same effect as on Tekton's
// entrypoint, which is a Go program, too, and handles no signals while it waits.
func (s *supervision) takeOverSignals() {
	if s.opts.mode == modeSupervise || s.opts.hooks != nil || s.opts.pause != nil || s.opts.inOrder() {
		s.registerStopSignal()
		signals.Catch()
	}
	if s.opts.mode == modeSupervise && os.Getpid() != 1 {
		// PID 1 inherits orphans anyway. In mode exec, the command would inherit them
		// and doesn't expect them.
		becomeSubreaper()
	}
}
