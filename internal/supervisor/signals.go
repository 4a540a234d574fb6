// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is the highest signal number of Linux; real-time signals end
// there.
const lastSignal = 64

// Whoever is told of a signal counts it; then, if there is a child, takes the
// count and sends the signal to the child as many times. When there is a child
// for the first time, forwardSignals does the same for every signal. Whichever
// comes second sees what the other did, so no signal is lost between the start
// of the program and that of the child, and none is sent twice.
var (
	unforwarded [lastSignal + 1]uint32 // per signal, not yet forwarded
	forwardPID  int64                  // process ID, 0 while there is none
)

// seen is 1 for each signal that has come, forwarded or not, and wasn't told of. What
// was told of is in came.
var (
	unrecorded [lastSignal + 1]uint32
	recorded   [lastSignal + 1]bool
)

// refused has the error for each signal that the child could not be sent, 0 if
// there is none that wasn't told.
var refusals [lastSignal + 1]uint32

func signalCame(sig syscall.Signal) bool {
	return recorded[sig] || atomic.LoadUint32(&unrecorded[sig]) > 0
}

// forwardTo makes pid the process to forward signals to, those included that
// came before, but for the one that is held back (stop.go).
func forwardTo(pid int) {
	atomic.StoreInt64(&forwardPID, int64(pid))
	for n := range unforwarded {
		if sig := syscall.Signal(n); sig != heldSignal {
			sendPending(pid, sig)
		}
	}
}

// sendPending sends a signal as often as it has come.
func sendPending(pid int, sig syscall.Signal) {
	for range atomic.SwapUint32(&unforwarded[sig], 0) {
		if err, ok := errors.AsType[syscall.Errno](syscall.Kill(pid, sig)); ok {
			atomic.StoreUint32(&refusals[sig], uint32(err)) //nolint:gosec // G115: it is a small number
		}
	}
}

// stopForwarding keeps the signals that come from now on, if it was pid that they
// went to.
func stopForwarding(pid int) { atomic.CompareAndSwapInt64(&forwardPID, int64(pid), 0) }

// tellRefused tells of signals that the command could not be sent, of each kind
// once. It may run as another user by now (setuid(2)), whom we may not signal
// (kill(2)): as PID 1 it would have got them from outside of the container.
func (s *supervision) reportRefused() {
	for n := range refusals {
		sig := syscall.Signal(n)
		err := syscall.Errno(atomic.SwapUint32(&refusals[n], 0))
		if err == 0 || s.refusalReported[n] {
			continue
		}
		s.refusalReported[n] = true
		s.message = "forwarding " + signalName(sig) + " to the command: " + err.Error()
		if err == syscall.EPERM {
			s.message += ": " + otherUser
		}
		say(s.message)
		s.setPhase(s.phase)
	}
}

// otherUser is why the kernel doesn't let us signal our child, and what to do.
const otherUser = "it runs as another user than the container's: run the container as that user, or set mode: exec"

// pending reports whether sig has come and was not forwarded.
func isPending(sig syscall.Signal) bool { return atomic.LoadUint32(&unforwarded[sig]) > 0 }

// takePending is pending, and forgets it.
func takePending(sig syscall.Signal) bool { return atomic.SwapUint32(&unforwarded[sig], 0) > 0 }

// Write is write(2), for writes of ours. The signal by which the kernel tells this
// thread, beside the error, that it has failed isn't meant for the command: it is held
// back, and taken.
func Write(fd int, data []byte) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, before unix.Sigset_t
	set.Val[0] = 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGXFSZ-1)
	held := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before) == nil
	n, err = unix.Write(fd, data)
	if !held {
		return n, err
	}
	if err == syscall.EPIPE || err == syscall.EFBIG {
		var now unix.Timespec
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), sigsetSize, 0, 0)
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return n, err
}

// sigsetSize is that of the kernel's sigset_t, in bytes.
const sigsetSize = 8

// forwarded reports whether sig is passed on to the child. All are, except those
// that no process can handle, those by which a C library talks to its own threads
// (32, 33), and, where there is no handler of our own, those that mostly mean
// ourselves.
func isForwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, 32, 33:
		return false
	case syscall.SIGCHLD, syscall.SIGURG:
		return knowsSender
	}
	return sig >= 1 && sig <= lastSignal
}

// fault reports whether the kernel sends sig for an instruction of the
// receiver's own. Our own faults are the Go runtime's to handle; one that
// another process sends by kill(2) is forwarded as any signal.
func isFault(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS:
		return true
	}
	return false
}

// signalName is the name of sig, such as SIGTERM or SIGRTMIN+3, as of the C
// library: two real-time signals are its own.
func signalName(sig syscall.Signal) string {
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
