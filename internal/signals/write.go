// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Write is write(2) for the supervisor's own output. A failed write can raise SIGPIPE
// or SIGXFSZ in this thread, which must not be forwarded to the command. So Write
// blocks and consumes these signals.
func Write(fd int, data []byte) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, before unix.Sigset_t
	set.Val[0] = 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGXFSZ-1)
	blocked := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &before) == nil
	n, err = unix.Write(fd, data)
	if !blocked {
		return n, err
	}
	if err == syscall.EPIPE || err == syscall.EFBIG {
		var now unix.Timespec
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, uintptr(unsafe.Pointer(&now)), sigsetSize, 0, 0)
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return n, err
}

// sigsetSize is the size of the kernel's sigset_t, in bytes.
const sigsetSize = 8
