// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Child is what runs under a supervisor while that is measured. It writes the
// time to stdout, as eight bytes, when it is ready, when it notices SIGUSR1, and
// just before it exits, which it does when descriptor 3 is at its end. (Not
// stdin, which not every supervisor passes on.)
package main

import (
	"encoding/binary"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	noticed := make(chan os.Signal, 1)
	signal.Notify(noticed, syscall.SIGUSR1)
	stamp()
	go func() {
		for range noticed {
			stamp()
		}
	}()
	_, _ = io.Copy(io.Discard, os.NewFile(3, "until"))
	stamp()
}

// stamp writes the nanoseconds of the clock that all processes share.
func stamp() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	if err := binary.Write(os.Stdout, binary.NativeEndian, now.Nano()); err != nil {
		panic(err)
	}
}
