// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package life

import (
	"slices"
	"syscall"

	"github.com/entrypointer/entrypointer/internal/signals"
)

// StopSignalCame reports whether the stop signal has arrived.
func (l *Life) StopSignalCame() bool { return signals.Came(l.StopSignal) }

// StopCame reports whether the container was asked to stop. The kubelet sends SIGTERM if
// it doesn't know the stop signal of the image. Other signals may have another purpose,
// such as a reload (SIGHUP).
func (l *Life) StopCame() bool { return l.StopSignalCame() || signals.Came(syscall.SIGTERM) }

// PendingEndSignal returns an ending signal that has arrived and was not forwarded, or
// 0.
func (l *Life) PendingEndSignal() syscall.Signal {
	for _, sig := range l.EndSignals {
		if signals.IsPending(sig) {
			return sig
		}
	}
	return 0
}

// EndedByEndSignal reports whether the exit code is that of an end by an ending signal.
func (l *Life) EndedByEndSignal() bool {
	return slices.ContainsFunc(l.EndSignals, func(sig syscall.Signal) bool { return l.ExitCode == 128+int(sig) })
}
