// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && !portable

package supervisor

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
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
var ignoredAtStart []syscall.Signal

// The handlers, for the kernel to call, which don't follow Go's calling convention.
// All but the first tell by the siginfo_t what the signal is about, and forward it
// if another process has sent it: SIGCHLD, unless the kernel sends it, about a
// child or a watched directory; SIGURG, unless the Go runtime interrupts a thread of
// ours by it; a fault, unless it is our own.
func onSignal()
func onChild()
func onUrgent()
func onFault()
func onHeld() //nolint:unused // assembly takes its address; it only counts
func onPing()

// wake is how they end.
func wake()

// handlers returns their addresses. A func value of theirs would be that of a
// wrapper that does follow Go's calling convention.
func handlers() (signal, child, urgent, fault uintptr)
func heldHandler() uintptr
func pingHandler() uintptr

// tellsSender: the handlers know who has sent a signal.
const knowsSender = true

// one is what they write to the eventfd.
var wakeIncrement uint64 = 1

// A sigaction is the kernel's struct, as it is on amd64 and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDefault = 0 // SIG_DFL
	sigIgnore  = 1 // SIG_IGN
)

// catchSignals installs the handlers, but not for signals that are ignored:
// these must be so in the child, too, and up to then, for us.
func catchSignals() {
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		switch {
		case !isForwarded(sig):
		case setAction(sig, nil).handler == sigIgnore:
			ignoredAtStart = append(ignoredAtStart, sig)
		default:
			install(sig)
		}
	}
}

// catchChildren has SIGCHLD wake us.
func catchChildren() { install(syscall.SIGCHLD) }

// releaseSignals gives all signals their default action, and returns when those that
// came before are counted.
func releaseSignals() {
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if action := setAction(sig, nil); isForwarded(sig) && action.handler != sigIgnore {
			action.handler = sigDefault
			setAction(sig, &action)
		}
	}
	settleThreads()
}

// ping is a signal that nobody uses but C libraries. pinged counts those that came.
const ping = syscall.Signal(32)

var pinged uint32

// settleThreads returns when no other thread of ours is about to handle a signal that
// came before: each gets another one, which it takes only after that. Else a thread
// that was told of SIGTERM, but has not done anything about it yet, would be lost with
// the signal when this one executes the command.
func settleThreads() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	action := setAction(syscall.SIGTERM, nil)
	action.handler = pingHandler()
	setAction(ping, &action)
	sent := uint32(0)
	threads, _ := readDirectory("/proc/self/task")
	for _, name := range threads {
		if id, err := strconv.Atoi(name); err == nil && id != unix.Gettid() && unix.Tgkill(os.Getpid(), id, ping) == nil {
			sent++
		}
	}
	for deadline := time.Now().Add(time.Second); atomic.LoadUint32(&pinged) < sent && time.Now().Before(deadline); {
		time.Sleep(20 * time.Microsecond)
	}
}

// forwardSignals makes pid the process to forward signals to, those included
// that came before. It may have begun to handle those that it was started with
// ignored, so from now on they are forwarded as well.
func forwardSignals(pid int) {
	forwardTo(pid)
	for _, sig := range ignoredAtStart {
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
		if isForwarded(sig) {
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
	signal, child, urgent, ownFault := handlers()
	if runtimeHandler == 0 {
		runtimeHandler = action.handler
	}
	switch {
	case sig == heldSignal:
		action.handler = heldHandler()
	case sig == syscall.SIGCHLD:
		action.handler = child
	case sig == syscall.SIGURG:
		action.handler = urgent
	case isFault(sig):
		action.handler = ownFault
	default:
		action.handler = signal
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
