// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (portable || !(amd64 || arm64))

package supervisor

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// On an architecture for which there is no handler of our own, signals are
// forwarded by package os/signal, with its limits (see signals_direct.go), and
// none but SIGHUP and SIGINT stays ignored in the child. The build tag portable
// selects this for a test elsewhere.

// caught holds the signals of a burst.
var caught = make(chan os.Signal, 4096)

// tellsSender: package os/signal doesn't say who has sent a signal.
const knowsSender = false

var delivering sync.Once

// catchSignals keeps signals for the child, from now on.
func catchSignals() {
	notify(func(sig syscall.Signal) bool { return !signal.Ignored(sig) })
	delivering.Do(deliver)
}

// catchChildren has SIGCHLD wake us.
func catchChildren() {
	signal.Notify(caught, syscall.SIGCHLD)
	delivering.Do(deliver)
}

// releaseSignals gives all signals the action that they have in a Go program, and
// returns when those that came before are counted.
func releaseSignals() {
	delivering.Do(deliver)
	signal.Stop(caught)
	caught <- os.Kill // which nobody else can send
	<-released
}

var released = make(chan struct{})

// deliver does what the handlers do elsewhere.
func deliver() {
	go func() {
		for s := range caught {
			sig := s.(syscall.Signal)
			if sig == syscall.SIGKILL {
				close(released)
				return
			}
			if sig != syscall.SIGCHLD {
				forward(sig)
			}
			if fd := atomic.LoadInt32(&wakeFD); fd >= 0 {
				_, _ = unix.Write(int(fd), []byte{1, 0, 0, 0, 0, 0, 0, 0})
			}
		}
	}()
}

func forward(sig syscall.Signal) {
	atomic.AddUint32(&unforwarded[sig], 1)
	atomic.StoreUint32(&unrecorded[sig], 1)
	if pid := int(atomic.LoadInt64(&forwardPID)); pid != 0 && sig != heldSignal {
		sendPending(pid, sig)
	}
}

// forwardSignals makes pid the process to forward signals to, those included
// that came before.
func forwardSignals(pid int) {
	forwardTo(pid)
	notify(func(sig syscall.Signal) bool { return signal.Ignored(sig) })
}

func notify(want func(syscall.Signal) bool) {
	var list []os.Signal
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if isForwarded(sig) && want(sig) {
			list = append(list, sig)
		}
	}
	if len(list) > 0 { // with none, Notify would take all
		signal.Notify(caught, list...)
	}
}
