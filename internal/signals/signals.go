// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package signals forwards signals to one process, and wakes the loop of this process.
//
// A handler counts each signal that arrives (direct.go and the assembly; portable.go on
// other architectures). It then sends the signal on, if there is a process to send it to
// and the signal isn't held back (counts.go, hold.go), and ends Sleep (wake.go). Signals
// that arrive before there is such a process are sent when it exists.
//
// The state belongs to this process, as signal handlers do: there is one of everything.
package signals

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Last is the highest signal number on Linux, SIGRTMAX.
const Last = 64

// IsForwarded reports whether the supervisor forwards sig to the command. Exceptions
// are signals that can't be handled, the signals that C libraries use between their
// threads (32, 33), and, where os/signal doesn't tell the sender, signals that mostly
// concern the supervisor itself.
func IsForwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, 32, 33:
		return false
	case syscall.SIGCHLD, syscall.SIGURG:
		return knowsSender
	}
	return sig >= 1 && sig <= Last
}

// CanHold reports whether a signal can be handled and has no other meaning to the
// supervisor.
func CanHold(sig syscall.Signal) bool {
	return IsForwarded(sig) && !isFault(sig) && sig != syscall.SIGCHLD && sig != syscall.SIGURG
}

// isFault reports whether the kernel sends sig because of an instruction of the
// receiver. The Go runtime handles the supervisor's own faults. A fault signal that
// another process sends with kill(2) is forwarded like any other.
func isFault(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS:
		return true
	}
	return false
}

// Name returns the name of sig, such as SIGTERM or SIGRTMIN+3. SIGRTMIN is that
// of the C library, which reserves two real-time signals for itself.
func Name(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	if sig >= firstRealTime {
		return strings.TrimSuffix("SIGRTMIN+"+strconv.Itoa(int(sig-firstRealTime)), "+0")
	}
	return "signal " + strconv.Itoa(int(sig))
}

// firstRealTime is SIGRTMIN.
const firstRealTime = 34
