// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes orphans among our descendants our children, as those
// of its namespace are PID 1's. A kernel or a seccomp profile that refuses
// costs a few zombies, which is no reason to refuse the command.
func becomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// reap waits for every child until pid, the one that we started, has exited,
// and returns how it ended.
//
// Nothing else in this program waits, so no exit status is ever lost. What the
// command leaves behind is not waited for: a daemon, or a descendant that holds
// stdout open, must not keep a finished container alive.
func reap(pid int, term terminal) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		dead, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, ownFailure("waiting for the command: " + err.Error() + ": it was started, but its exit code is lost")
		case dead != pid:
		case status.Stopped():
			term.childStopped(pid, status.StopSignal())
		default:
			return status, nil
		}
	}
}

// exitCode is the code by which a shell tells how a process ended.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// describe says how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "was killed by " + signalName(status.Signal())
	}
	return "exited with " + strconv.Itoa(status.ExitStatus())
}
