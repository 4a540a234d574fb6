// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
		return ownFailure("running before-start hooks: opening /dev/null: " + err.Error())
	}
	defer unix.Close(null)
	for i, argv := range s.opts.hooks {
		s.setPhase(phaseHooks)
		if err := s.runHook(argv, env, null); err != nil {
			return &failure{err.code, reasonHookFailure, "before-start hook " + strconv.Itoa(i+1) + ": " + err.text}
		}
		if sig := s.pendingEnd(); sig != 0 {
			return stoppedBy(sig, "before-start hook "+strconv.Itoa(i+1))
		}
	}
	return nil
}

func (s *supervision) runHook(argv, env []string, null int) *failure {
	hook, err := s.start(argv, env, s.stdio(uintptr(null)), childAttr(terminal{}))
	if err != nil {
		return asFailure(err)
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
		return asFailure(err)
	case end.verdict == tooSlow:
		return &failure{exitTimeout, reasonHookFailure, "running " + name + ": not done after " + s.opts.hookTimeout.String() +
			": make it faster, or raise before-start-timeout"}
	case exitCode(hook.status) != 0:
		return &failure{exitCode(hook.status), reasonHookFailure, "running " + name + ": it " + describe(hook.status) + ": the command was not started"}
	}
	return nil
}
