// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"errors"
	"iter"
	"sync/atomic"
	"syscall"
)

// A signal handler increments the signal's count. If there is a command, it then takes
// the count and sends the signal as many times. When the command has been started,
// Forward does the same for all signals. Whichever of the two comes second sees
// the other's effect. So no signal that arrives while the command is being started is
// lost or sent twice.
var (
	unforwarded [Last + 1]uint32 // count per signal
	forwardPID  int64            // process ID of the command, 0 while there is none
)

// unrecorded is 1 for each signal that has arrived since Arrivals last looked.
// recorded holds the signals that Arrivals has seen.
var (
	unrecorded [Last + 1]uint32
	recorded   [Last + 1]bool
)

// refusals holds, per signal, the errno of a failed kill(2) that Refusals hasn't
// returned, 0 for none.
var refusals [Last + 1]uint32

// forwardTo makes pid the process that signals are forwarded to, including those that
// have already arrived. The held signal isn't forwarded here (hold.go).
func forwardTo(pid int) {
	atomic.StoreInt64(&forwardPID, int64(pid))
	for n := range unforwarded {
		if sig := syscall.Signal(n); sig != held {
			sendPending(pid, sig)
		}
	}
}

// SendArrived sends pid, which may be this process, the signals that have arrived and
// were not forwarded. Signals that were ignored at the start stay ignored.
func SendArrived(pid int) { forwardTo(pid) }

// sendPending sends a signal as many times as it has arrived.
func sendPending(pid int, sig syscall.Signal) {
	for range atomic.SwapUint32(&unforwarded[sig], 0) {
		if err, ok := errors.AsType[syscall.Errno](syscall.Kill(pid, sig)); ok {
			atomic.StoreUint32(&refusals[sig], uint32(err)) //nolint:gosec // G115: it is a small number
		}
	}
}

// StopForwarding keeps the signals that arrive from now on, if they were forwarded to
// pid.
func StopForwarding(pid int) { atomic.CompareAndSwapInt64(&forwardPID, int64(pid), 0) }

// Refusals returns the signals that the kernel did not let this process forward since the
// last call, each with the error of kill(2). The receiver may have changed its user
// (setuid(2)) to one that this process may not signal.
func Refusals() iter.Seq2[syscall.Signal, syscall.Errno] {
	return func(yield func(syscall.Signal, syscall.Errno) bool) {
		for n := range refusals {
			err := syscall.Errno(atomic.SwapUint32(&refusals[n], 0))
			if err != 0 && !yield(syscall.Signal(n), err) {
				return
			}
		}
	}
}

// Came reports whether sig has ever arrived.
func Came(sig syscall.Signal) bool {
	return recorded[sig] || atomic.LoadUint32(&unrecorded[sig]) > 0
}

// Arrivals returns the signals that have arrived since the last call, each once. A
// running process has already got them.
func Arrivals() iter.Seq[syscall.Signal] {
	return func(yield func(syscall.Signal) bool) {
		for n := range unrecorded {
			if atomic.SwapUint32(&unrecorded[n], 0) == 0 {
				continue
			}
			recorded[n] = true
			if !yield(syscall.Signal(n)) {
				return
			}
		}
	}
}

// IsPending reports whether sig has arrived and was not forwarded.
func IsPending(sig syscall.Signal) bool { return atomic.LoadUint32(&unforwarded[sig]) > 0 }

// TakePending is IsPending, and resets the signal's count.
func TakePending(sig syscall.Signal) bool { return atomic.SwapUint32(&unforwarded[sig], 0) > 0 }
