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

// runHooks runs the before-start hooks, one after the other, each with the
// command's environment, stdout and stderr, and with nothing to read.
//
// Signals that come meanwhile are the command's and wait for it, with the
// exception of those that ask for the end: the hook gets them, too, and the
// command isn't started.
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
		s.report(phaseHooks)
		if err := s.runHook(argv, env, null); err != nil {
			return &failure{err.code, reasonHookFailure, "before-start hook " + strconv.Itoa(i+1) + ": " + err.text}
		}
		if sig := askedToEnd(); sig != 0 {
			return stopped(sig, "before-start hook "+strconv.Itoa(i+1))
		}
	}
	return nil
}

func (s *supervision) runHook(argv, env []string, null int) *failure {
	pid, err := start(argv, env, []uintptr{uintptr(null), 1, 2}, childAttr(terminal{}))
	if err != nil {
		return asFailure(err)
	}
	var limit limit
	limit.start(pid, s.opts.hookTimeout, s.opts.gracePeriod)
	done := passOnEnd(pid)
	status, err := reap(pid, terminal{})
	close(done)
	late := limit.stop()
	name := strconv.Quote(argv[0])
	switch {
	case err != nil:
		return asFailure(err)
	case late:
		return &failure{exitTimeout, reasonHookFailure, "running " + name + ": not done after " + s.opts.hookTimeout.String() +
			": make it faster, or raise before-start-timeout"}
	case exitCode(status) != 0:
		return &failure{exitCode(status), reasonHookFailure, "running " + name + ": it " + describe(status) + ": the command was not started"}
	}
	return nil
}

// glance is how often somebody looks for a signal that nobody's death tells of.
// It is done only while a hook runs, and in a pause.
const glance = 20 * time.Millisecond

// passOnEnd sends to pid what signals ask for the end, until done is closed.
func passOnEnd(pid int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		ticker := time.NewTicker(glance)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			if sig := askedToEnd(); sig != 0 {
				_ = syscall.Kill(pid, sig)
				return
			}
		}
	}()
	return done
}
