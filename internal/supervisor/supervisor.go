// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"syscall"
)

// version is set when a release is linked: -ldflags "-X <package>.version=v1.2.3".
var version = "devel"

// Main runs the command that args, the process's own argv, asks for, and
// returns the code to exit with. It returns only once the command has exited
// or could not be started; in mode exec, only in the latter case.
func Main(args []string) int {
	opts, err := parse(args[min(1, len(args)):])
	if err != nil {
		return report(err)
	}
	switch {
	case opts.help:
		return answer(usage)
	case opts.version:
		return answer("entrypoint " + version + " " + platform() + "\n")
	}
	argv, err := opts.command()
	if err != nil {
		return report(err)
	}
	if opts.mode == modeExec {
		return report(replace(argv))
	}
	code, err := supervise(argv)
	if err != nil {
		return report(err)
	}
	return code
}

// supervise starts argv as a child and stays until it has exited.
func supervise(argv []string) (int, error) {
	catchSignals()
	term := foregroundTerminal()
	pid, err := start(argv, childAttr(term))
	if err != nil {
		return 0, err
	}
	forwardSignals(pid)
	return reap(pid, term)
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
		// PID 1 needs neither: it inherits orphans by nature, and nothing
		// in its namespace outlives it.
		becomeSubreaper()
		// The kernel goes by the end of the thread that forked, not of the
		// process. It comes to the same: the Go runtime ends no thread but
		// one whose goroutine ended while locked to it.
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
