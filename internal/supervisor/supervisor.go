// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/installer"
	"github.com/entrypointer/entrypointer/internal/order"
)

// copyCommand is the name under which an init container copies a tool.
const copyCommand = "copy"

// Main does what args, the process's own argv, asks for, and returns the code
// to exit with. If that is to run a command, it returns only once that has
// exited or could not be started; in mode exec, only in the latter case.
func Main(args []string) int { return MainWith(nil, args) }

// MainWith is Main, with flags by which the command's output can be asked to go there.
func MainWith(output Output, args []string) int {
	availableOutput = output
	args = args[min(1, len(args)):]
	if len(args) > 0 {
		if args[0] == copyCommand {
			return installer.ToolMain(args[1:])
		}
		if control := controlCommand(args[0]); control != nil {
			return control(args[1:])
		}
	}
	switch {
	case len(args) == 0:
		_, _ = syscall.Write(2, []byte(usage()))
		return exitOwnFailure
	case args[0] == "help":
		return writeStdout(usage())
	}
	opts, err := parse(args)
	if err != nil {
		return printFailure(err)
	}
	switch {
	case opts.help:
		return writeStdout(usage())
	case opts.version:
		return writeStdout("entrypoint " + versionOf("/proc/self/exe") + " " + platform() + "\n")
	}
	argv, err := opts.command()
	if err != nil {
		return failBeforeStart(opts, err)
	}
	s := &supervision{opts: opts, publisher: openPublisher(opts), waiter: await.NewWaiter(opts.wait, opts.waitLimit)}
	return s.run(argv)
}

// A supervision is one run of a command, from the wait before it to what is
// said after it.
type supervision struct {
	opts *options
	status
	publisher
	presence
	pipes
	waiter          *await.Waiter
	output          Output     // nil if it goes where ours does
	firstTerm       time.Time  // the first SIGTERM, if there is an output
	children        []*process // that we have started
	held            heldCommand
	heldStop        heldStop
	helper          helper
	waitAborted     bool     // its turn won't come; the command knows, and only says so
	term            terminal // of the command, once it runs
	refusalReported [lastSignal + 1]bool

	killsBefore int // for want of memory, when the command was started
}

// run returns the code to exit with.
func (s *supervision) run(argv []string) int {
	s.openOutput()
	s.announce()
	env, err := s.prepare(argv)
	switch {
	case err != nil:
	case s.opts.mode == modeExec:
		err = s.replace(argv, env)
	default:
		err = s.supervise(argv, env)
	}
	if err = s.excuseUnneeded(err); err != nil {
		f := asFailure(err)
		say(f.text)
		s.exitCode, s.reason, s.message = f.code, f.reason, f.text
	}
	s.closePipes()
	if len(s.opts.endSidecars) == 0 {
		s.publishPhase(order.Ended, s.exitCode)
	} else {
		s.publishPhase(order.Finishing, s.exitCode) // and the end last of all
	}
	s.leavePostFiles()
	if s.reason == reasonTimeout {
		leaveTimeoutResult(s.opts.timeoutResult)
	}
	s.reportEnd()
	s.endSidecars()
	return s.exitCode
}

// supervise has argv run as a child, until that has exited.
func (s *supervision) supervise(argv, env []string) error {
	if s.isUnneeded() {
		return errUnneeded
	}
	command, err := s.startCommand(argv, env)
	if err != nil {
		return err
	}
	limit := newLimit(command, s.opts.timeout, s.opts.gracePeriod)
	if err := s.awaitEnd(command, limit); err != nil {
		return err
	}
	if s.term.isOurs() && slices.Contains(s.opts.pause, pauseAfterFailure) {
		s.term.setForeground(unix.Getpgrp()) // so that Ctrl-C ends the pause
	}
	switch {
	case s.helper.stopSent:
		s.recordUnneededEnd(limit)
		return nil
	case limit.killErr != nil && s.endedByStartupProbe:
		return ownFailure("the startupProbe has failed, and the command can't be ended: " + limit.killErr.Error() + ": " + otherUser)
	case limit.killErr != nil:
		return s.timeoutFailure("it can't be ended: " + limit.killErr.Error() + ": " + otherUser)
	}
	s.recordEnd(command.status)
	if limit.reached && !s.endedByStartupProbe {
		return s.timeoutFailure("sent SIGTERM, it " + describe(command.status) + ": make it faster, or raise timeout")
	}
	return s.checkWriter()
}

// awaitEnd waits for the end of the command, or until it can't be ended by its limit.
func (s *supervision) awaitEnd(command *process, limit *limit) error {
	told := false
	err := s.until(func() time.Duration {
		s.endUnneeded(limit)
		s.endAfterStartupFailure(limit)
		pause := limit.act()
		if limit.reached && !told && !s.endedByStartupProbe && !s.helper.stopSent {
			s.dropStopSignals()
			told = true
			s.event(EventTimeout, "", 0)
		}
		if command.ended || limit.killErr != nil {
			return done
		}
		return min(pause, s.holdStop(command))
	})
	stopForwarding(command.pid) // also if it couldn't be ended
	s.stopProbing()
	s.stopStartupProbe()
	s.endHeldStop()
	return err
}

// begin starts the command, or continues the one that is held.
func (s *supervision) startCommand(argv, env []string) (*process, error) {
	s.term = foregroundTerminal()
	if s.opts.reports() {
		// Before the command, so that it can read it.
		s.started = time.Now()
		s.expectStartupProbe()
		s.setPhase(phaseRunning)
	}
	command := s.held.process
	if command == nil {
		s.killsBefore = s.countOOMKills()
		files, err := s.commandFiles()
		if err == nil {
			command, err = s.start(argv, env, files, childAttr(s.term))
		}
		s.closeWriteEnd()
		if err != nil {
			s.started = time.Time{}
			return nil, err
		}
	}
	if command.ended {
		return command, nil // while it was held: its ID may be another process's
	}
	s.event(EventStarted, argv[0], command.pid)
	forwardSignals(command.pid)
	if s.held.process != nil {
		s.continueHeld()
	}
	s.publishPhase(order.Started, 0)
	s.startProbing(env)
	s.startStartupProbe(env)
	return command, nil
}

// conclude takes note of how the command ended.
func (s *supervision) recordEnd(end syscall.WaitStatus) {
	s.ended, s.command, s.exitCode = true, exitCode(end), exitCode(end)
	s.reason = reasonExited
	s.oomKills = s.countOOMKills() - s.killsBefore
	if end.Signaled() {
		s.signal = end.Signal()
		s.reason = reasonSignalled
	}
	// Or, as a shell tells of a process of its own, by the exit code.
	if s.oomKills > 0 && s.exitCode == 128+int(syscall.SIGKILL) {
		s.reason = reasonOOMKilled
	}
	s.event(EventExited, "", int(end))
	if s.oomKills > 0 {
		s.event(EventOOMKilled, "", s.oomKills)
	}
	if s.opts.successes.Contains(s.command) {
		s.exitCode = 0
	}
}

func (s *supervision) timeoutFailure(end string) error {
	return &failure{exitTimeout, reasonTimeout, "the command timed out after " + s.opts.timeout.String() + " (entrypointer.dev/timeout); " + end}
}

// countOOMKills looks only if there is a status that would tell.
func (s *supervision) countOOMKills() int {
	if !s.opts.reports() {
		return 0
	}
	return oomKills()
}

// leavePostFiles tells other containers of a failure.
func (s *supervision) leavePostFiles() {
	if s.exitCode == 0 && s.command == 0 { // what is a success to us isn't one to the steps after it
		return
	}
	leavePostFile(s.opts.postFile)
	if !s.ended {
		leavePostFile(s.opts.startFailureFile)
	}
}

// tell tells whoever asked how it ended.
func (s *supervision) reportEnd() {
	if !s.opts.reports() {
		return
	}
	s.finished = time.Now()
	if s.exitCode != 0 && !s.waitAborted && !s.wasEndRequested() {
		s.pauseAt(pauseAfterFailure)
	}
	s.deliver()
	s.setPhase(phaseFinished)
	s.output = nil // it is closed
	leaveTerminationMessage(s.opts.terminationMessage, s.json())
}

// wasAskedToEnd tells whether the end is one that somebody wanted: a pause then
// would only hold it up. Nobody sends SIGTERM or SIGINT for anything else; SIGHUP
// and SIGQUIT may have been about a configuration or a stack trace.
func (s *supervision) wasEndRequested() bool {
	asks := func(sig syscall.Signal) bool { return s.exitCode == 128+int(sig) }
	return s.reason == reasonStopped || s.opts.wait.Aborts() || s.stopSignalCame() || signalCame(syscall.SIGTERM) || signalCame(syscall.SIGINT) || slices.ContainsFunc(endingSignals, asks)
}

// report makes the status known, with a new phase.
func (s *supervision) setPhase(phase phase) {
	s.phase = phase
	if s.output != nil {
		s.logs = s.output.Status()
	}
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
	if term.isOurs() {
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
func writeStdout(s string) int {
	if _, err := syscall.Write(1, []byte(s)); err != nil {
		return exitOwnFailure
	}
	return 0
}
