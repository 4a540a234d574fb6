// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process is a child that we have started.
type process struct {
	pid    int
	ended  bool
	status syscall.WaitStatus // how, if it has
}

// start starts a process, which until will reap.
func (s *supervision) start(argv, env []string, files []uintptr, attr *syscall.SysProcAttr) (*process, error) {
	pid, err := start(argv, env, files, attr)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid}
	s.children = append(s.children, p)
	return p, nil
}

// becomeSubreaper makes orphans among our descendants our children, as those
// of its namespace are PID 1's. A kernel or a seccomp profile that refuses
// costs a few zombies, which is no reason to refuse the command.
func becomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// reap takes note of every child that has ended or stopped, and leaves no zombie.
//
// Nothing else in this program waits, so no exit status is ever lost. What the
// command leaves behind is not waited for: a daemon, or a descendant that holds
// stdout open, must not keep a finished container alive.
func (s *supervision) reap() error {
	for {
		pid, ended, err := nextChild()
		if err == nil && pid > 0 {
			if ended {
				stopForwarding(pid) // before its ID may be given to another
			}
			var status syscall.WaitStatus
			var reaped int
			reaped, err = syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
			if reaped == pid {
				s.recordChild(pid, status)
			}
			if err == nil {
				continue
			}
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD && !s.anyChildRuns():
			return nil
		case err != nil:
			return ownFailure("waiting for the command: " + err.Error() + ": it was started, but its exit code is lost")
		default:
			return nil
		}
	}
}

// childInfo is the beginning of a siginfo_t that tells of a child, which package
// unix doesn't take apart.
type childInfo struct {
	signo, errno, code int32
	child              struct {
		_   [0]uintptr
		pid int32
	}
}

// nextChild returns a child that has ended or stopped, 0 if there is none, and
// leaves it to be reaped.
func nextChild() (pid int, ended bool, _ error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	const stoppedOrTrapped = 4 // CLD_TRAPPED, CLD_STOPPED and CLD_CONTINUED are from here on
	return int((*childInfo)(unsafe.Pointer(&info)).child.pid), info.Code < stoppedOrTrapped, err
}

func (s *supervision) recordChild(pid int, status syscall.WaitStatus) {
	for _, p := range s.children {
		if p.pid != pid || p.ended {
			continue
		}
		if status.Stopped() {
			s.term.childStopped(pid, status.StopSignal())
		} else {
			p.ended, p.status = true, status
		}
	}
}

func (s *supervision) anyChildRuns() bool {
	for _, p := range s.children {
		if !p.ended {
			return true
		}
	}
	return false
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
