// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal whose foreground process group we
// were started in; the zero value's fd is meaningless, use ours.
//
// The foreground group is the one that may read from the terminal and that
// Ctrl-C, Ctrl-Z and a change of window size are sent to. The child's group
// takes this place from ours, so that it reads as if we weren't there and gets
// each of these signals from the kernel, once. It stays in our session, which
// is what keeps the terminal its controlling one.
type terminal struct {
	fd    int
	found bool
}

func (t terminal) isOurs() bool { return t.found }

// foregroundTerminal finds the terminal among stdin, stdout and stderr. It
// finds none when we run in the background of someone's shell: whoever is in
// front stays there.
func foregroundTerminal() terminal {
	for fd := range 3 {
		// Only a controlling terminal answers this.
		if pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			return terminal{fd: fd, found: pgrp == unix.Getpgrp()}
		}
	}
	return terminal{}
}

// childStopped acts on Ctrl-Z, the stop that a terminal brings about. Other
// stops are between the child and whoever sent them.
//
// In a container there is no shell above us that could resume the child. The
// kernel knows that case: it discards SIGTSTP for a process group that nobody
// in the session can resume (POSIX: orphaned), and without us the child's group
// would be such a one. So the child goes on. Under a shell, in turn, the
// job that the shell knows of is us: we step back and stop with the child, and
// take it to the front again when we are resumed.
func (t terminal) childStopped(pid int, sig syscall.Signal) {
	if !t.isOurs() || sig != syscall.SIGTSTP {
		return
	}
	if !isOrphanedGroup() {
		t.setForeground(unix.Getpgrp())
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		t.setForeground(pid)
	}
	_ = unix.Kill(-pid, unix.SIGCONT)
}

// orphaned reports whether nobody does job control for us: POSIX's orphaned process
// group, each of whose members has a parent that is in the group itself, or
// outside of the session. A shell that runs a script is in the group of what it
// starts. What can't be seen does none.
func isOrphanedGroup() bool {
	own := readStat(os.Getpid())
	for _, pid := range processIDs() {
		member := readStat(pid)
		if member.group != own.group || member.session != own.session {
			continue
		}
		parent := readStat(member.parent)
		if parent.session == own.session && parent.group != own.group {
			return false
		}
	}
	return true
}

// setForeground is tcsetpgrp(3).
func (t terminal) setForeground(pgrp int) {
	fromBehind(func() { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) })
}

// fromBehind does something with the terminal. The kernel answers a caller from the
// background, which we are once the child has the terminal, with SIGTTOU, unless that
// is blocked; our handler for it would return, and the call be tried again, for ever.
func fromBehind(do func()) {
	runtime.LockOSThread() // the mask is the thread's
	defer runtime.UnlockOSThread()
	var ttou, old unix.Sigset_t
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old) != nil {
		return
	}
	do()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}
