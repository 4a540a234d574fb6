// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import "syscall"

// lastSignal is the highest signal number of Linux; real-time signals end
// there.
const lastSignal = 64

// forwarded reports whether sig is passed on to the child. All are, except
// those that no process can handle, those that say something about a process's
// own children, and those by which a Go program (SIGURG, 33) or a C library
// (32, 33) talks to its own threads.
func forwarded(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, 32, 33:
		return false
	}
	return sig >= 1 && sig <= lastSignal
}

// fault reports whether the kernel sends sig for an instruction of the
// receiver's own. Our own faults are the Go runtime's to handle; one that
// another process sends by kill(2) is forwarded as any signal.
func fault(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS:
		return true
	}
	return false
}
