// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && !portable

package signals

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
)

// Signals are forwarded by handlers in a few instructions of assembly. Package
// os/signal isn't suitable: it never sees signal 34 (SIGRTMIN) and SIGPROF, merges
// real-time signals that must be counted, drops signals that don't fit into its
// channel, overrides ignored signals, and takes as long to set up as a small program
// takes to run.

// runtimeHandler is the address of the Go runtime's signal handler.
var runtimeHandler uintptr

// ignoredAtStart holds the signals that were ignored when the supervisor was started.
var ignoredAtStart []syscall.Signal

// The signal handlers. The kernel calls them, not by Go's calling convention. onSignal
// forwards every signal. The next three look at the siginfo_t, and forward the signal
// only if another process has sent it. They don't forward SIGCHLD from the kernel,
// about a child or a watched directory; SIGURG from the Go runtime, which interrupts
// threads by it; and the supervisor's own faults.
func onSignal()
func onChild()
func onUrgent()
func onFault()
func onHeld() //nolint:unused // assembly takes its address; it only counts
func onPing()

// wake ends all handlers: it wakes the loop.
func wake()

// handlers returns the addresses of the handlers. A func value would contain the
// address of a wrapper that follows Go's calling convention.
func handlers() (signal, child, urgent, fault uintptr)
func heldHandler() uintptr
func pingHandler() uintptr

// knowsSender is true, because the handlers get the sender from the siginfo_t.
const knowsSender = true

// wakeIncrement is the value that the handlers write to the eventfd.
var wakeIncrement uint64 = 1

// A sigaction is the kernel's struct on amd64 and arm64.
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

// Catch installs the handlers. It leaves ignored signals alone: the command must
// inherit them as ignored.
func Catch() {
	for sig := syscall.Signal(1); sig <= Last; sig++ {
		switch {
		case !IsForwarded(sig):
		case setAction(sig, nil).handler == sigIgnore:
			ignoredAtStart = append(ignoredAtStart, sig)
		default:
			install(sig)
		}
	}
}

// catchChildren lets SIGCHLD wake the loop.
func catchChildren() { install(syscall.SIGCHLD) }

// Release restores the default action of all signals. It returns once the
// signals that arrived before are counted.
func Release() {
	for sig := syscall.Signal(1); sig <= Last; sig++ {
		if action := setAction(sig, nil); IsForwarded(sig) && action.handler != sigIgnore {
			action.handler = sigDefault
			setAction(sig, &action)
		}
	}
	settleThreads()
}

// ping is a signal that only C libraries use. pinged counts its arrivals.
const ping = syscall.Signal(32)

var pinged uint32

// settleThreads waits until no other thread is about to handle an earlier signal. It
// sends ping to each thread, which the thread handles only after earlier signals.
// Otherwise a thread that has received SIGTERM, but hasn't counted it yet, would be
// lost together with the signal when this thread executes the command.
func settleThreads() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	action := setAction(syscall.SIGTERM, nil)
	action.handler = pingHandler()
	setAction(ping, &action)
	sent := uint32(0)
	threads, _ := proc.ReadDirectory("/proc/self/task")
	for _, name := range threads {
		if id, err := strconv.Atoi(name); err == nil && id != unix.Gettid() && unix.Tgkill(os.Getpid(), id, ping) == nil {
			sent++
		}
	}
	for deadline := time.Now().Add(time.Second); atomic.LoadUint32(&pinged) < sent && time.Now().Before(deadline); {
		time.Sleep(20 * time.Microsecond)
	}
}

// Forward makes pid the process that signals are forwarded to, including those
// that have already arrived. From now on, signals that were ignored at the start are
// forwarded as well, because the command may have begun to handle them.
func Forward(pid int) {
	forwardTo(pid)
	for _, sig := range ignoredAtStart {
		install(sig)
	}
	unblockSignals()
}

// unblockSignals unblocks, in this thread, the signals that were blocked when the
// supervisor was started. The command keeps that mask.
func unblockSignals() {
	var set unix.Sigset_t
	for sig := syscall.Signal(1); sig <= Last; sig++ {
		if IsForwarded(sig) {
			set.Val[0] |= 1 << (sig - 1)
		}
	}
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}

// install makes the handler for sig ours. The rest of its action is that of the Go
// runtime for SIGTERM: it runs on the signal stack, masks all signals, and restarts
// system calls.
func install(sig syscall.Signal) {
	action := setAction(syscall.SIGTERM, nil)
	signal, child, urgent, ownFault := handlers()
	if runtimeHandler == 0 {
		runtimeHandler = action.handler
	}
	switch {
	case sig == held:
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

// setAction is sigaction(2). It sets the action of sig unless action is nil, and
// returns the action before. With the signals and the memory of this package, the
// system call can't fail.
func setAction(sig syscall.Signal, action *sigaction) (old sigaction) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(old.mask), 0, 0)
	return old
}
