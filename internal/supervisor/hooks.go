// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// runHooks runs the before-start hooks one after the other. Each has the command's
// environment, stdout and stderr, and an empty stdin.
//
// Signals that arrive meanwhile are kept for the command. An ending signal is forwarded
// to the running hook as well, and the command isn't started.
func (s *supervision) runHooks(env []string) error {
	if len(s.opts.hooks) == 0 {
		return nil
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return outcome.Own("running before-start hooks: opening /dev/null: " + err.Error())
	}
	defer unix.Close(null)
	for i, argv := range s.opts.hooks {
		s.setPhase(phaseHooks)
		if err := s.runHook(argv, env, null); err != nil {
			return outcome.New(err.Code, outcome.HookFailure, "before-start hook " + strconv.Itoa(i+1) + ": " + err.Text)
		}
		if sig := s.pendingEnd(); sig != 0 {
			return outcome.StoppedBy(sig, "before-start hook "+strconv.Itoa(i+1))
		}
	}
	return nil
}

func (s *supervision) runHook(argv, env []string, null int) *outcome.Failure {
	hook, err := s.start(argv, env, s.stdio(uintptr(null)), childAttr(terminal.Terminal{}))
	if err != nil {
		return outcome.As(err)
	}
	s.event(EventHookStarted, argv[0], hook.pid)
	end, limit := ending{process: hook}, newLimit(s.opts.hookTimeout)
	err = s.until(func() time.Duration {
		if sig := s.pendingEnd(); sig != 0 && end.signal == 0 {
			if s.foundUnneeded() {
				end.decide(unneeded, s.opts.gracePeriod) // nobody else sends SIGKILL
			}
			end.stop(sig)
		}
		reached, pause := limit.reached()
		if reached && end.decide(tooSlow, s.opts.gracePeriod) {
			end.stop(syscall.SIGTERM)
		}
		if pause = min(pause, end.kill()); !end.over() {
			return pause
		}
		return done
	})
	if hook.ended {
		s.event(EventHookEnded, "", int(hook.status))
	}
	name := strconv.Quote(argv[0])
	switch {
	case err != nil:
		return outcome.As(err)
	case end.verdict == tooSlow:
		return outcome.New(outcome.CodeTimeout, outcome.HookFailure, "running " + name + ": not done after " + s.opts.hookTimeout.String() +
			": make it faster, or raise before-start-timeout")
	case outcome.ExitCode(hook.status) != 0:
		return outcome.New(outcome.ExitCode(hook.status), outcome.HookFailure, "running " + name + ": it " + outcome.Describe(hook.status) + ": the command was not started")
	}
	return nil
}
