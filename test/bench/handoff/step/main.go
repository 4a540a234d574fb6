// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Step takes as long as its first argument says, and prints when it began, when
// it ended, and for how long its parent, Tekton's entrypoint, had been running
// when it began.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc, proc_pid_stat(5). It is the same on all
// architectures that matter.
const tick = time.Second / 100

func main() {
	began := time.Now()
	age, err := ageOf(os.Getppid())
	if err != nil {
		log.Fatalf("looking at the parent: %v", err)
	}
	if len(os.Args) < 2 {
		log.Fatal("usage: step DURATION [ignored...]")
	}
	takes, err := time.ParseDuration(os.Args[1])
	if err != nil {
		log.Fatalf("parsing how long to take: %v", err)
	}
	time.Sleep(takes - time.Since(began))
	fmt.Println(began.Format(time.RFC3339Nano), time.Now().Format(time.RFC3339Nano), age)
}

// ageOf is the time since a process was started, to the next half of a tick.
func ageOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const startTime = 22 - 3 // the first of these is the third
	if len(fields) <= startTime {
		return 0, fmt.Errorf("unexpected /proc/%d/stat: %q", pid, stat)
	}
	ticks, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()) - time.Duration(ticks)*tick - tick/2, nil
}
