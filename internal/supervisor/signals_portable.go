// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (portable || !(amd64 || arm64))

package supervisor

import (
	"os"
	"os/signal"
	"syscall"
)

// On an architecture for which there is no handler of our own, signals are
// forwarded by package os/signal, with its limits (see signals_direct.go), and
// none but SIGHUP and SIGINT stays ignored in the child. The build tag portable
// selects this for a test elsewhere.

// caught holds the signals that came before there was a child to forward them
// to, and those of a burst.
var caught = make(chan os.Signal, 4096)

// catchSignals keeps signals for the child, from now on.
func catchSignals() {
	notify(func(sig syscall.Signal) bool { return !signal.Ignored(sig) })
}

// forwardSignals makes pid the process to forward signals to, those included
// that came before.
func forwardSignals(pid int) {
	notify(func(sig syscall.Signal) bool { return signal.Ignored(sig) })
	go func() {
		for sig := range caught {
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		}
	}()
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
