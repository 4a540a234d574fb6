// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && !portable

package supervisor

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals are forwarded by a handler of our own, a few instructions of
// assembly that the kernel calls. Package os/signal can't do this work: it
// never sees signal 34 (SIGRTMIN) and SIGPROF, it merges real-time signals that
// ought to be counted, drops what doesn't fit into its channel, overrides what is
// ignored, and takes as long to set up as a small program takes to run.

// runtimeHandler is the address of the Go runtime's signal handler.
var runtimeHandler uintptr

// ignored holds the signals that we were started with ignored.
var ignored []syscall.Signal

// onSignal and onFault are the handlers, for the kernel to call; they don't
// follow Go's calling convention.
func onSignal()
func onFault()

// handlers returns the addresses of onSignal and onFault. A func value of
// theirs would be that of a wrapper that does follow Go's calling convention.
func handlers() (signal, fault uintptr)

// A sigaction is the kernel's struct, as it is on amd64 and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const sigIgnore = 1 // SIG_IGN

// catchSignals installs the handlers, but not for signals that are ignored:
// these must be so in the child, too, and up to then, for us.
func catchSignals() {
	runtimeHandler = setAction(syscall.SIGTERM, nil).handler
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		switch {
		case !forwarded(sig):
		case setAction(sig, nil).handler == sigIgnore:
			ignored = append(ignored, sig)
		default:
			install(sig)
		}
	}
}

// forwardSignals makes pid the process to forward signals to, those included
// that came before. It may have begun to handle those that it was started with
// ignored, so from now on they are forwarded as well.
func forwardSignals(pid int) {
	forwardTo(pid)
	for _, sig := range ignored {
		install(sig)
	}
	unblockSignals()
}

// unblockSignals lets this thread take what all threads were started with
// blocked. The child keeps such a mask, and what it does with a signal that
// arrives is its own affair.
func unblockSignals() {
	var set unix.Sigset_t
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if forwarded(sig) {
			set.Val[0] |= 1 << (sig - 1)
		}
	}
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}

// install makes the handler for sig ours. Else, its action becomes the one that
// the runtime has set for SIGTERM: on the signal stack, with all signals
// masked, and restarting system calls.
func install(sig syscall.Signal) {
	action := setAction(syscall.SIGTERM, nil)
	onSignal, onFault := handlers()
	action.handler = onSignal
	if fault(sig) {
		action.handler = onFault
	}
	setAction(sig, &action)
}

// setAction is sigaction(2). It sets sig's action to action, unless that is
// nil, and returns the one before. The system call doesn't fail for the signals
// and the memory that it is called with here.
func setAction(sig syscall.Signal, action *sigaction) (old sigaction) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(old.mask), 0, 0)
	return old
}
