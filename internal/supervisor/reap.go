// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A process is a child that the supervisor has started.
type process struct {
	pid    int
	ended  bool
	status syscall.WaitStatus // valid if ended is true
}

// start starts a child process, which until reaps.
func (s *supervision) start(argv, env []string, files []uintptr, attr *syscall.SysProcAttr) (*process, error) {
	pid, err := start(argv, env, files, attr)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid}
	s.children = append(s.children, p)
	return p, nil
}

// becomeSubreaper makes this process inherit the orphans among its descendants, as PID
// 1 does. If the kernel or a seccomp profile refuses, zombies remain, which is no
// reason to refuse the command.
func becomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// reap records every child that has ended or stopped, and leaves no zombie.
//
// No other function of this program waits for children, so no exit status is lost. reap
// doesn't wait for descendants that outlive the command: a daemon, or a process that
// holds stdout open, must not keep a finished container running.
func (s *supervision) reap() error {
	for {
		pid, ended, err := nextChild()
		if err == nil && pid > 0 {
			if ended {
				signals.StopForwarding(pid) // before the kernel can reuse the process ID
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
			return outcome.Own("waiting for the command: " + err.Error() + ": it was started, but its exit code is lost")
		default:
			return nil
		}
	}
}

// childInfo is the beginning of the siginfo_t for SIGCHLD. Package unix doesn't define
// its fields.
type childInfo struct {
	signo, errno, code int32
	child              struct {
		_   [0]uintptr
		pid int32
	}
}

// nextChild returns a child that has ended or stopped, 0 if there is none, without
// reaping it.
func nextChild() (pid int, ended bool, _ error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	const stoppedOrTrapped = 4 // CLD_TRAPPED; CLD_STOPPED and CLD_CONTINUED are greater
	return int((*childInfo)(unsafe.Pointer(&info)).child.pid), info.Code < stoppedOrTrapped, err
}

func (s *supervision) recordChild(pid int, status syscall.WaitStatus) {
	for _, p := range s.children {
		if p.pid != pid || p.ended {
			continue
		}
		if status.Stopped() {
			s.term.ChildStopped(pid, status.StopSignal())
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

