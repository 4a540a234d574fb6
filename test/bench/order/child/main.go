// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Child is the command of a container whose start or end is measured.
//
//	child CODE
//
// It writes lines of a word and a time to descriptor 3: "started" at its start,
// "ended" just before it exits with the code, which it does when descriptor 4 is at
// its end, and "stopped" on SIGTERM, after which it exits with 0.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM)
	code, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err != nil {
		log.Fatal(err)
	}
	stamps := os.NewFile(3, "stamps")
	stamp(stamps, "started")
	finish := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(4, "until"))
		close(finish)
	}()
	select {
	case <-stops:
		stamp(stamps, "stopped")
		os.Exit(0)
	case <-finish:
		stamp(stamps, "ended")
		os.Exit(code)
	}
}

// stamp writes the nanoseconds of the clock that all processes share.
func stamp(to io.Writer, word string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	if _, err := fmt.Fprintln(to, word, now.Nano()); err != nil {
		log.Fatal(err)
	}
}
