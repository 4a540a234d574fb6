// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (portable || !(amd64 || arm64))

package signals

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// On architectures without handlers in assembly, package os/signal forwards signals,
// with its limits (see direct.go). Only SIGHUP and SIGINT stay ignored in the
// command. The build tag portable selects this file in tests on other architectures.

// caught buffers signals. Its size bounds the burst that isn't lost.
var caught = make(chan os.Signal, 4096)

// knowsSender is false, because package os/signal doesn't report who sent a signal.
const knowsSender = false

var delivering sync.Once

// Catch counts signals for the command from now on.
func Catch() {
	notify(func(sig syscall.Signal) bool { return !signal.Ignored(sig) })
	delivering.Do(deliver)
}

// catchChildren lets SIGCHLD wake the loop.
func catchChildren() {
	signal.Notify(caught, syscall.SIGCHLD)
	delivering.Do(deliver)
}

// Release restores the actions that signals have in a Go program. It returns
// once the signals that arrived before are counted.
func Release() {
	delivering.Do(deliver)
	signal.Stop(caught)
	caught <- os.Kill // os/signal never delivers SIGKILL, so it can mark the end
	<-released
}

var released = make(chan struct{})

// deliver does the work of the handlers in direct.go.
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
	if pid := int(atomic.LoadInt64(&forwardPID)); pid != 0 && sig != held {
		sendPending(pid, sig)
	}
}

// Forward makes pid the process that signals are forwarded to, including those
// that have already arrived.
func Forward(pid int) {
	forwardTo(pid)
	notify(func(sig syscall.Signal) bool { return signal.Ignored(sig) })
}

func notify(want func(syscall.Signal) bool) {
	var list []os.Signal
	for sig := syscall.Signal(1); sig <= Last; sig++ {
		if IsForwarded(sig) && want(sig) {
			list = append(list, sig)
		}
	}
	if len(list) > 0 { // without arguments, Notify would catch all signals
		signal.Notify(caught, list...)
	}
}
