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

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
)

// version is set when a release is linked: -ldflags "-X <package>.version=v1.2.3".
var version = "devel"

// Main does what args, the process's own argv, asks for, and returns the code
// to exit with. If that is to run a command, it returns only once that has
// exited or could not be started; in mode exec, only in the latter case.
func Main(args []string) int {
	args = args[min(1, len(args)):]
	if len(args) > 0 {
		if control := controlNamed(args[0]); control != nil {
			return control(args[1:])
		}
	}
	opts, err := parse(args)
	if err != nil {
		return report(err)
	}
	switch {
	case opts.help:
		return answer(usage())
	case opts.version:
		return answer("entrypoint " + version + " " + platform() + "\n")
	}
	argv, err := opts.command()
	if err != nil {
		return report(err)
	}
	s := &supervision{opts: opts, publisher: openPublisher(opts), waiter: await.NewWaiter(opts.wait)}
	return s.run(argv)
}

// A supervision is one run of a command, from the wait before it to what is
// said after it.
type supervision struct {
	opts *options
	status
	publisher
	waiter     *await.Waiter // to be closed when nothing has to happen soon
	held       held
	passedOver bool // its turn won't come; the command knows, and only says so

	killsBefore int // for want of memory, when the command was started
}

// run returns the code to exit with.
func (s *supervision) run(argv []string) int {
	env, err := s.prepare(argv)
	switch {
	case err != nil:
	case s.opts.mode == modeExec:
		err = replace(argv, env)
	default:
		err = s.supervise(argv, env)
	}
	if err != nil {
		f := asFailure(err)
		say(f.text)
		s.exitCode, s.reason, s.message = f.code, f.reason, f.text
	}
	return s.finish()
}

// prepare does what comes before the command, and returns its environment.
func (s *supervision) prepare(argv []string) ([]string, error) {
	if s.opts.holds() {
		return s.prepareHeld(argv)
	}
	s.awaitTurn()
	s.takeOver()
	if s.opts.hooks != nil || s.opts.pause != nil {
		s.waiter.Close() // they may take long
	}
	env, err := s.opts.env.apply(environ())
	switch {
	case s.passedOver && err != nil:
		return environ(), nil //nolint:nilerr // whoever would have written a file of variables may have failed
	case s.passedOver:
		return env, nil
	case err != nil:
		return nil, err
	}
	if err := s.runHooks(env); err != nil {
		return nil, err
	}
	if sig := s.pauseAt(pauseBeforeStart); sig != 0 {
		return nil, stopped(sig, "the pause before its start")
	}
	return env, nil
}

// prepareHeld is prepare for a command that is started before its turn.
func (s *supervision) prepareHeld(argv []string) ([]string, error) {
	env, err := s.opts.env.apply(environ())
	if err == nil {
		s.report(phaseWaiting)
		err = s.hold(argv, env)
	}
	s.takeOver()
	return env, err
}

// takeOver makes signals the command's from here on, and its orphans ours. One that
// comes while we wait for our turn has the effect that it has on Tekton's
// entrypoint, which is a Go program, too, and does nothing about signals while it
// waits.
func (s *supervision) takeOver() {
	if s.opts.mode == modeSupervise || s.opts.hooks != nil || s.opts.pause != nil {
		catchSignals()
	}
	if s.opts.mode == modeSupervise && os.Getpid() != 1 {
		// PID 1 inherits orphans by nature. In mode exec they would be the
		// command's, which doesn't expect them.
		becomeSubreaper()
	}
}

// awaitTurn waits for the files that say that it is the command's turn. If they
// can't be looked at, the command is started all the same: it waits for
// them itself, and knows better what to do about it.
func (s *supervision) awaitTurn() {
	if len(s.opts.wait.All) == 0 || s.preparesSharedly() {
		return
	}
	s.report(phaseWaiting)
	result, _ := s.waiter.Wait(s.opts.waitLimit)
	s.passedOver = result == await.Aborted || result == await.Unknown
}

// preparesSharedly reports whether the command does something before it waits
// that other containers may see.
func (s *supervision) preparesSharedly() bool {
	if s.opts.waitUnlessShared == "" {
		return false
	}
	dir, set := lookup(environ(), s.opts.waitUnlessShared)
	return set && mayBeShared(dir)
}

// supervise starts argv as a child and stays until it has exited.
func (s *supervision) supervise(argv, env []string) error {
	term := foregroundTerminal()
	if s.opts.reports() {
		// Before the command, so that it can read it.
		s.started = time.Now()
		s.report(phaseRunning)
	}
	pid := s.held.pid
	if pid == 0 {
		s.killsBefore = s.countOOMKills()
		var err error
		if pid, err = start(argv, env, inherited, childAttr(term)); err != nil {
			s.started = time.Time{}
			return err
		}
	}
	forwardSignals(pid)
	s.continueHeld(term)
	s.waiter.Close()
	var limit limit
	limit.start(pid, s.opts.timeout, s.opts.gracePeriod)
	end, err := reap(pid, term)
	late := limit.stop()
	if err != nil {
		return err
	}
	if term.ours() && slices.Contains(s.opts.pause, pauseAfterFailure) {
		term.setForeground(unix.Getpgrp()) // so that Ctrl-C ends the pause
	}
	s.ended, s.command, s.exitCode = true, exitCode(end), exitCode(end)
	s.reason = reasonExited
	s.oomKills = s.countOOMKills() - s.killsBefore
	if end.Signaled() {
		s.signal = end.Signal()
	}
	switch {
	case late:
		return &failure{exitTimeout, reasonTimeout, "running " + strconv.Quote(argv[0]) + ": not done after " +
			s.opts.timeout.String() + "; told to end, it " + describe(end) + ": make it faster, or raise timeout"}
	case end.Signaled():
		s.reason = reasonSignalled
		if s.oomKills > 0 && s.signal == syscall.SIGKILL {
			s.reason = reasonOOMKilled
		}
	case s.oomKills > 0 && s.exitCode == 128+int(syscall.SIGKILL): // as a shell tells of a process of its own
		s.reason = reasonOOMKilled
	}
	if s.opts.successes.Contains(s.command) {
		s.exitCode = 0
	}
	return nil
}

// countOOMKills looks only if there is a status that would tell.
func (s *supervision) countOOMKills() int {
	if !s.opts.reports() {
		return 0
	}
	return oomKills()
}

// finish tells whoever asked how it ended, and returns the code to exit with.
func (s *supervision) finish() int {
	if s.exitCode != 0 || s.command != 0 { // what is a success to us isn't one to the steps after it
		leavePostFile(s.opts.postFile)
		if !s.ended {
			leavePostFile(s.opts.startFailureFile)
		}
	}
	if !s.opts.reports() {
		return s.exitCode
	}
	s.finished = time.Now()
	keepSignals() // one that comes now has nobody left to go to
	if s.exitCode != 0 && !s.passedOver && !s.wasAskedToEnd() {
		s.pauseAt(pauseAfterFailure)
	}
	s.report(phaseFinished)
	leaveTerminationMessage(s.opts.terminationMessage, s.json())
	return s.exitCode
}

// wasAskedToEnd tells whether the end is one that somebody wanted: a pause then
// would only hold it up. Nobody sends SIGTERM or SIGINT for anything else; SIGHUP
// and SIGQUIT may have been about a configuration or a stack trace.
func (s *supervision) wasAskedToEnd() bool {
	asks := func(sig syscall.Signal) bool { return s.exitCode == 128+int(sig) }
	return s.reason == reasonStopped || s.opts.wait.Aborts() || hasCome(syscall.SIGTERM) || hasCome(syscall.SIGINT) || slices.ContainsFunc(endingSignals, asks)
}

// report makes the status known, with a new phase.
func (s *supervision) report(phase phase) {
	s.phase = phase
	if s.opts.reports() {
		s.publish(s.json())
	}
}

// childAttr is what the child gets that a plain fork and exec does not give.
func childAttr(term terminal) *syscall.SysProcAttr {
	// A process group of its own: what the terminal, or the child by
	// kill(0, ...), sends to the child's group reaches the child once, and
	// not a second time through us.
	attr := &syscall.SysProcAttr{Setpgid: true}
	if term.ours() {
		attr.Foreground, attr.Ctty = true, term.fd
	}
	if os.Getpid() != 1 {
		// Nothing outlives PID 1 in its namespace. The kernel goes by the end
		// of the thread that forked, not of the process. It comes to the same:
		// the Go runtime ends no thread but one whose goroutine ended while
		// locked to it.
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// answer writes to stdout what was asked for by -help or -version.
func answer(s string) int {
	if _, err := syscall.Write(1, []byte(s)); err != nil {
		return exitOwnFailure
	}
	return 0
}
