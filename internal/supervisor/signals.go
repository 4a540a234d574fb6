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

// lastSignal is the highest signal number on Linux, SIGRTMAX.
const lastSignal = 64

// A signal handler increments the signal's count. If there is a command, it then takes
// the count and sends the signal as many times. When the command has been started,
// forwardSignals does the same for all signals. Whichever of the two comes second sees
// the other's effect. So no signal that arrives while the command is being started is
// lost or sent twice.
var (
	unforwarded [lastSignal + 1]uint32 // count per signal
	forwardPID  int64                  // process ID of the command, 0 while there is none
)

// unrecorded is 1 for each signal that has arrived since recordSignals last looked.
// recorded holds the signals that recordSignals has seen.
var (
	unrecorded [lastSignal + 1]uint32
	recorded   [lastSignal + 1]bool
)

// refusals holds, per signal, the errno of a failed kill(2) that reportRefused hasn't
// printed, 0 for none.
var refusals [lastSignal + 1]uint32

func signalCame(sig syscall.Signal) bool {
	return recorded[sig] || atomic.LoadUint32(&unrecorded[sig]) > 0
}

// forwardTo makes pid the process that signals are forwarded to, including those that
// have already arrived. heldSignal (stop.go) isn't forwarded here.
func forwardTo(pid int) {
	atomic.StoreInt64(&forwardPID, int64(pid))
	for n := range unforwarded {
		if sig := syscall.Signal(n); sig != heldSignal {
			sendPending(pid, sig)
		}
	}
}

// sendPending sends a signal as many times as it has arrived.
func sendPending(pid int, sig syscall.Signal) {
	for range atomic.SwapUint32(&unforwarded[sig], 0) {
		if err, ok := errors.AsType[syscall.Errno](syscall.Kill(pid, sig)); ok {
			atomic.StoreUint32(&refusals[sig], uint32(err)) //nolint:gosec // G115: it is a small number
		}
	}
}

// stopForwarding keeps the signals that arrive from now on, if they were forwarded to
// pid.
func stopForwarding(pid int) { atomic.CompareAndSwapInt64(&forwardPID, int64(pid), 0) }

// reportRefused prints which signals the kernel did not let the supervisor send to the
// command, once for each signal. The command may have changed its user (setuid(2)) to
// one that the supervisor may not signal (kill(2)). Without a supervisor, it would have
// received signals from outside the container as PID 1.
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

// otherUser explains why the kernel doesn't let the supervisor signal its child, and
// what to do.
const otherUser = "it runs as another user than the container's: run the container as that user, or set mode: exec"

// isPending reports whether sig has arrived and was not forwarded.
func isPending(sig syscall.Signal) bool { return atomic.LoadUint32(&unforwarded[sig]) > 0 }

// takePending is isPending, and resets the signal's count.
func takePending(sig syscall.Signal) bool { return atomic.SwapUint32(&unforwarded[sig], 0) > 0 }

// Write is write(2) for the supervisor's own output. A failed write can raise SIGPIPE
// or SIGXFSZ in this thread, which must not be forwarded to the command. So Write
// blocks and consumes these signals.
func Write(fd int, data []byte) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, before unix.Sigset_t
	set.Val[0] = 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGXFSZ-1)
	blocked := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before) == nil
	n, err = unix.Write(fd, data)
	if !blocked {
		return n, err
	}
	if err == syscall.EPIPE || err == syscall.EFBIG {
		var now unix.Timespec
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), sigsetSize, 0, 0)
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return n, err
}

// sigsetSize is the size of the kernel's sigset_t, in bytes.
const sigsetSize = 8

// isForwarded reports whether the supervisor forwards sig to the command. Exceptions
// are signals that can't be handled, the signals that C libraries use between their
// threads (32, 33), and, where os/signal doesn't tell the sender, signals that mostly
// concern the supervisor itself.
func isForwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, 32, 33:
		return false
	case syscall.SIGCHLD, syscall.SIGURG:
		return knowsSender
	}
	return sig >= 1 && sig <= lastSignal
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

// signalName returns the name of sig, such as SIGTERM or SIGRTMIN+3. SIGRTMIN is that
// of the C library, which reserves two real-time signals for itself.
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
