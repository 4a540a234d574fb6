// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Child plays the part of the user's process where a shell can't.
//
//	child count n  counts real-time signals until there were n, or none came
//	               for two seconds, and prints the number
//	child spin     waits for its end
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	switch os.Args[1] {
	case "count":
		if _, ok := os.LookupEnv("CHILD_BLOCKED"); !ok {
			execBlocked()
		}
		want, err := strconv.Atoi(os.Args[2])
		check(err)
		fmt.Println(count(want))
	case "spin":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}
}

// execBlocked executes this program again with all signals blocked, so that
// each of its threads is.
func execBlocked() {
	runtime.LockOSThread()
	all := unix.Sigset_t{Val: [16]uint64{^uint64(0)}}
	check(unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil))
	check(syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), "CHILD_BLOCKED=1")))
}

func count(want int) (n int) {
	realTime := unix.Sigset_t{Val: [16]uint64{^uint64(1<<34 - 1)}}
	fd, err := unix.Signalfd(-1, &realTime, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	check(err)
	fmt.Println("ready")
	buf := make([]byte, 64*unsafe.Sizeof(unix.SignalfdSiginfo{}))
	for n < want {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		ready, err := unix.Poll(poll, 2000)
		if err == unix.EINTR {
			continue
		}
		check(err)
		if ready == 0 {
			break
		}
		size, err := unix.Read(fd, buf)
		check(err)
		n += size / int(unsafe.Sizeof(unix.SignalfdSiginfo{}))
	}
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(99)
	}
}
