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
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
	"github.com/entrypointer/entrypointer/internal/supervisor/version"
)

// copyCommand is the subcommand by which an init container copies a tool.
const copyCommand = "copy"

// Main runs the program with args, the process's argv, and returns the exit code. With
// a command to run, it returns after the command has exited or could not be started. In
// mode exec, it returns only in the latter case.
func Main(args []string) int { return MainWith(nil, args) }

// MainWith is Main with an Output, whose flags decide whether it receives the command's
// output.
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
		return outcome.CodeOwnFailure
	case args[0] == "help":
		return printed(usage())
	}
	opts, err := parse(args)
	if err != nil {
		return printFailure(err)
	}
	switch {
	case opts.help:
		return printed(usage())
	case opts.version:
		return printed("entrypoint " + version.Of("/proc/self/exe") + " " + platform() + "\n")
	}
	argv, err := opts.command()
	if err != nil {
		return failBeforeStart(opts, err)
	}
	s := &supervision{opts: opts, publisher: openPublisher(opts), waiter: await.NewWaiter(opts.wait, opts.waitLimit)}
	return s.run(argv)
}

// A supervision is one run of a command, from the wait before its start to the reports
// after its end.
type supervision struct {
	opts *options
	status
	publisher
	orderState
	pipes
	waiter          *await.Waiter
	output          Output     // nil if the command uses the container's own stdout and stderr
	graceBegan      time.Time  // when a signal arrived that may be a stop by the kubelet, if there is an Output
	children        []*process // started by the supervisor
	early           earlyCommand
	ending          ending // of the command
	heldStop        heldStop
	helper          helper
	waitAborted     bool     // start the command without hooks or pauses, and let it report why
	term            terminal.Terminal // of the command, while it runs
	refusalReported [signals.Last + 1]bool

	killsBefore int // OOM kills in the container before the command's start
}

// run runs the command, and returns the exit code.
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
		f := outcome.As(err)
		console.Say(f.Text)
		s.exitCode, s.reason, s.message = f.Code, f.Reason, f.Text
	}
	s.closePipes()
	if len(s.opts.endSidecars) == 0 {
		s.publishPhase(order.Ended, s.exitCode)
	} else {
		s.publishPhase(order.Finishing, s.exitCode) // endSidecars publishes Ended
	}
	s.leavePostFiles()
	if s.reason == outcome.Timeout {
		leaveTimeoutResult(s.opts.timeoutResult)
	}
	s.reportEnd()
	s.endSidecars()
	s.completeLastWord()
	return s.exitCode
}

// supervise runs argv as a child and waits for its end.
func (s *supervision) supervise(argv, env []string) error {
	if !s.isNeeded() {
		return errUnneeded
	}
	command, err := s.startCommand(argv, env)
	if err != nil {
		return err
	}
	if err := s.awaitEnd(command); err != nil {
		return err
	}
	if s.term.IsOurs() && slices.Contains(s.opts.pause, pauseAfterFailure) {
		s.term.SetForeground(unix.Getpgrp()) // so that Ctrl-C ends the pause
	}
	return s.recordEnding()
}

// startCommand starts the command, or continues the early command.
func (s *supervision) startCommand(argv, env []string) (*process, error) {
	s.term = terminal.Foreground()
	if s.opts.reports() {
		// The status is published before the start, so that the command can read it.
		s.started = time.Now()
		s.expectStartupProbe()
		s.setPhase(phaseRunning)
	}
	command := s.early.process
	if command == nil {
		s.killsBefore = s.countOOMKills()
		if s.opts.ready.File != "" {
			s.opts.ready.Since = order.FileTime()
		}
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
		return command, nil // it has ended before, and its ID may be reused
	}
	s.event(EventStarted, argv[0], command.pid)
	signals.Forward(command.pid)
	if s.early.process != nil {
		s.continueEarly()
	}
	s.publishPhase(order.Started, 0)
	s.startProbing(env)
	s.startStartupProbe(env)
	s.prepareAliveProbe(env)
	return command, nil
}

// recordEnd records how the command ended.
func (s *supervision) recordEnd(end syscall.WaitStatus) {
	s.ended, s.command, s.exitCode = true, outcome.ExitCode(end), outcome.ExitCode(end)
	s.reason = outcome.Exited
	s.oomKills = s.countOOMKills() - s.killsBefore
	if end.Signaled() {
		s.signal = end.Signal()
		s.reason = outcome.Signalled
	}
	// A shell reports the SIGKILL of its child by this exit code.
	if s.oomKills > 0 && s.exitCode == 128+int(syscall.SIGKILL) {
		s.reason = outcome.OOMKilled
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
	return outcome.New(outcome.CodeTimeout, outcome.Timeout, "the command timed out after " + s.opts.timeout.String() + " (entrypointer.dev/timeout); " + end)
}

// countOOMKills reads the number of OOM kills only if the status can contain it.
func (s *supervision) countOOMKills() int {
	if !s.opts.reports() {
		return 0
	}
	return proc.OOMKills()
}

// leavePostFiles reports a failure to the steps that wait for a post file.
func (s *supervision) leavePostFiles() {
	if s.exitCode == 0 && s.command == 0 { // a code of -success-exit-codes is still a failure to Tekton's entrypoint
		return
	}
	leavePostFile(s.opts.postFile)
	if !s.ended {
		leavePostFile(s.opts.startFailureFile)
	}
}

// reportEnd publishes the final status.
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
	LeaveTerminationMessage(s.opts.terminationMessage, s.json())
}

// wasEndRequested reports whether the end was requested, so that a pause would only
// delay it. SIGTERM and SIGINT always request an end. SIGHUP and SIGQUIT may ask for a
// new configuration or a stack trace, so they count only if the command has ended by
// them.
func (s *supervision) wasEndRequested() bool {
	asks := func(sig syscall.Signal) bool { return s.exitCode == 128+int(sig) }
	return s.reason == outcome.Stopped || s.opts.wait.Aborts() || s.stopCame() || signals.Came(syscall.SIGINT) || slices.ContainsFunc(endingSignals, asks)
}

// setPhase sets the phase and publishes the status.
func (s *supervision) setPhase(phase phase) {
	s.phase = phase
	if s.output != nil {
		s.logs = s.output.Status()
	}
	if s.opts.reports() {
		s.publish(s.json())
	}
}

// childAttr returns the attributes of the command's process.
func childAttr(term terminal.Terminal) *syscall.SysProcAttr {
	// A process group of its own: a signal that the terminal sends to the group, or the
	// command by kill(0, ...), reaches the command once, and not a second time through
	// the supervisor.
	attr := &syscall.SysProcAttr{Setpgid: true}
	term.Attach(attr)
	if os.Getpid() != 1 {
		// The kernel kills the command when the supervisor dies. PID 1 doesn't need
		// this, because its end kills the whole PID namespace. PR_SET_PDEATHSIG acts at
		// the end of the thread that forked, not of the process. That makes no
		// difference here: the Go runtime ends only threads whose locked goroutine has
		// ended.
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// printed returns the exit code after a text for stdout.
func printed(text string) int {
	if !console.Stdout(text) {
		return outcome.CodeOwnFailure
	}
	return 0
}

// printFailure prints err and returns the exit code.
func printFailure(err error) int {
	f := outcome.As(err)
	console.Say(f.Text)
	return f.Code
}
