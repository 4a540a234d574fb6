// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (portable || !(amd64 || arm64))

package supervisor

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// On an architecture for which there is no handler of our own, signals are
// forwarded by package os/signal, with its limits (see signals_direct.go), and
// none but SIGHUP and SIGINT stays ignored in the child. The build tag portable
// selects this for a test elsewhere.

// caught holds the signals of a burst.
var caught = make(chan os.Signal, 4096)

// catchSignals keeps signals for the child, from now on.
func catchSignals() {
	notify(func(sig syscall.Signal) bool { return !signal.Ignored(sig) })
	go func() {
		for sig := range caught {
			deliver(sig.(syscall.Signal))
		}
	}()
}

// deliver is what onSignal does elsewhere.
func deliver(sig syscall.Signal) {
	atomic.AddUint32(&received[sig], 1)
	atomic.StoreUint32(&seen[sig], 1)
	pid := int(atomic.LoadInt64(&child))
	if pid == 0 {
		return
	}
	for range atomic.SwapUint32(&received[sig], 0) {
		_ = syscall.Kill(pid, sig)
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
		if forwarded(sig) && want(sig) {
			list = append(list, sig)
		}
	}
	if len(list) > 0 { // with none, Notify would take all
		signal.Notify(caught, list...)
	}
}
