// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package life

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// A Process is a child that the supervisor has started.
type Process struct {
	PID    int
	Ended  bool
	Status syscall.WaitStatus // valid if Ended is true
}

// Start starts a child process, which Until reaps.
func (l *Life) Start(argv, env []string, files []uintptr, attr *syscall.SysProcAttr) (*Process, error) {
	pid, err := launch.Start(argv, env, files, attr)
	if err != nil {
		return nil, err
	}
	p := &Process{PID: pid}
	l.children = append(l.children, p)
	return p, nil
}

// BecomeSubreaper makes this process inherit the orphans among its descendants, as PID
// 1 does. If the kernel or a seccomp profile refuses, zombies remain, which is no
// reason to refuse the command.
func BecomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// reap records every child that has ended or stopped, and leaves no zombie.
//
// No other function of this program waits for children, so no exit status is lost. reap
// doesn't wait for descendants that outlive the command: a daemon, or a process that
// holds stdout open, must not keep a finished container running.
func (l *Life) reap() error {
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
				l.recordChild(pid, status)
			}
			if err == nil {
				continue
			}
		}
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD && !l.anyChildRuns():
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

func (l *Life) recordChild(pid int, status syscall.WaitStatus) {
	for _, p := range l.children {
		if p.PID != pid || p.Ended {
			continue
		}
		if status.Stopped() {
			l.Term.ChildStopped(pid, status.StopSignal())
		} else {
			p.Ended, p.Status = true, status
		}
	}
}

func (l *Life) anyChildRuns() bool {
	for _, p := range l.children {
		if !p.Ended {
			return true
		}
	}
	return false
}

// CommandAttr returns the attributes of the command's process.
func CommandAttr(term terminal.Terminal) *syscall.SysProcAttr {
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

// startBeside starts a program in addition to the command. The kernel kills it when the
// supervisor ends.
func (l *Life) startBeside(path string, argv, env []string, files []uintptr) (func() (bool, int), error) {
	attr := &syscall.SysProcAttr{}
	if os.Getpid() != 1 {
		attr.Pdeathsig = syscall.SIGKILL // as for the command, see CommandAttr
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: files, Sys: attr})
	if err != nil {
		return nil, err
	}
	p := &Process{PID: pid}
	l.children = append(l.children, p)
	return func() (bool, int) {
		if !p.Ended {
			return false, 0
		}
		l.Forget(p)
		return true, outcome.ExitCode(p.Status)
	}, nil
}

// Forget removes an ended process from the list of children, which repeated probes
// would otherwise fill.
func (l *Life) Forget(p *Process) {
	l.children = slices.DeleteFunc(l.children, func(q *Process) bool { return q == p })
}

// ProbeRunner returns a Runner for a probe's commands. They have the command's
// environment; their stdin, stdout and stderr are /dev/null. The loop reaps them like
// all children.
func (l *Life) ProbeRunner(env []string) order.Runner {
	return func(argv []string) (func() (bool, error), func(), error) {
		null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, nil, err
		}
		defer unix.Close(null)
		fd := uintptr(null)
		p, err := l.Start(argv, env, []uintptr{fd, fd, fd}, CommandAttr(terminal.Terminal{}))
		if err != nil {
			return nil, nil, err
		}
		ended := func() (over bool, failure error) {
			if !p.Ended {
				return false, nil
			}
			l.Forget(p)
			if outcome.ExitCode(p.Status) != 0 {
				failure = errors.New("it " + outcome.Describe(p.Status))
			}
			return true, failure
		}
		kill := func() {
			if !p.Ended {
				_ = syscall.Kill(-p.PID, syscall.SIGKILL)
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
			l.Forget(p)
		}
		return ended, kill, nil
	}
}
