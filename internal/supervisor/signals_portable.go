// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"os/signal"
	"syscall"
)

var caught = make(chan os.Signal, 4096)

func catchSignals() {
	for n := 1; n <= 64; n++ {
		switch sig := syscall.Signal(n); sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG:
		default:
			if !signal.Ignored(sig) {
				signal.Notify(caught, sig)
			}
		}
	}
}

func forwardSignals(pid int) {
	go func() {
		for sig := range caught {
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		}
	}()
}
