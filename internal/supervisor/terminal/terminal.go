// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package terminal hands the controlling terminal to the command, and takes it back.
package terminal

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
)

// A Terminal is the controlling terminal, if the supervisor was started in its
// foreground process group. If found is false, fd has no meaning; use IsOurs.
//
// The foreground group may read from the terminal, and gets the signals of Ctrl-C,
// Ctrl-Z and of a changed window size. The command's group takes this place from the
// supervisor's. So the command can read, and gets each of these signals once, from the
// kernel. It stays in the supervisor's session, because only processes of the session
// keep the controlling terminal.
type Terminal struct {
	fd    int
	found bool
}

// IsOurs reports whether the terminal was found, with this process in its foreground.
func (t Terminal) IsOurs() bool { return t.found }

// Attach has the process that attr describes get the terminal's foreground.
func (t Terminal) Attach(attr *syscall.SysProcAttr) {
	if t.found {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// TakeBack takes the foreground back from a process that attr describes.
func TakeBack(attr *syscall.SysProcAttr) {
	if attr.Foreground {
		Terminal{fd: attr.Ctty, found: true}.SetForeground(unix.Getpgrp())
	}
}

// Foreground looks for the terminal among stdin, stdout and stderr. In the
// background of a shell it finds none: the foreground group keeps its place.
func Foreground() Terminal {
	for fd := range 3 {
		// Only a controlling terminal supports this ioctl.
		if pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			return Terminal{fd: fd, found: pgrp == unix.Getpgrp()}
		}
	}
	return Terminal{}
}

// ChildStopped handles Ctrl-Z: the stop of the command by SIGTSTP. Other stops concern
// only the command and their sender.
//
// In a container, usually no shell can resume the command. The kernel discards SIGTSTP
// for a process group that no process of the session can resume (POSIX calls it
// orphaned), and without a supervisor, the command's group would be orphaned. So the
// supervisor continues the command. Under a shell, the shell's job is the supervisor:
// it takes the foreground, stops itself, and gives the foreground back to the command
// when the shell resumes it.
func (t Terminal) ChildStopped(pid int, sig syscall.Signal) {
	if !t.IsOurs() || sig != syscall.SIGTSTP {
		return
	}
	if !isOrphanedGroup() {
		t.SetForeground(unix.Getpgrp())
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		t.SetForeground(pid)
	}
	_ = unix.Kill(-pid, unix.SIGCONT)
}

// isOrphanedGroup reports whether the supervisor's process group is orphaned as POSIX
// defines it: the parent of each member is in the group itself or outside the session.
// A shell that runs a script is in the same group as the processes that it starts.
// Without /proc, the group counts as orphaned.
func isOrphanedGroup() bool {
	own := proc.ReadStat(os.Getpid())
	for _, pid := range proc.IDs() {
		member := proc.ReadStat(pid)
		if member.Group != own.Group || member.Session != own.Session {
			continue
		}
		parent := proc.ReadStat(member.Parent)
		if parent.Session == own.Session && parent.Group != own.Group {
			return false
		}
	}
	return true
}

// SetForeground is tcsetpgrp(3).
func (t Terminal) SetForeground(pgrp int) {
	WithTTOUBlocked(func() { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) })
}

// WithTTOUBlocked calls do with SIGTTOU blocked. The kernel sends SIGTTOU to a background
// process that changes the terminal, and the supervisor is in the background once the
// command has the foreground. Its handler would return, and the system call would be
// repeated forever.
func WithTTOUBlocked(do func()) {
	runtime.LockOSThread() // the signal mask belongs to the thread
	defer runtime.UnlockOSThread()
	var ttou, old unix.Sigset_t
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old) != nil {
		return
	}
	do()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
}
