// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"sync/atomic"
	"syscall"
)

// held is the signal that is held back, 0 for none. Its handler counts it and never
// forwards it.
var held syscall.Signal

// Hold holds a signal back, which CanHold allows, until SendHeld sends it. It is called
// before Catch.
func Hold(sig syscall.Signal) { held = sig }

// Held returns the signal that is held back, 0 for none.
func Held() syscall.Signal { return held }

// TakeHeld returns how many times the held signal has arrived since the last call.
func TakeHeld() int {
	if held == 0 {
		return 0
	}
	return int(atomic.SwapUint32(&unforwarded[held], 0))
}

// SendHeld sends pid the held signal as many times as TakeHeld has returned, and as many
// times as it has arrived since.
func SendHeld(pid, taken int) {
	atomic.AddUint32(&unforwarded[held], uint32(taken)) //nolint:gosec // G115: it was taken from there
	sendPending(pid, held)
}
