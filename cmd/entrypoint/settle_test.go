// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// settle waits until nothing more will come of what was sent to processes: all
// of their threads are asleep with no signal to take, stopped, or dead. So a
// test can tell what does not happen from what has not happened yet, by no clock.
func settle(t testing.TB, pids ...int) {
	t.Helper()
	for start := time.Now(); ; {
		before, settled := threads(pids)
		if settled {
			// One thread may have woken another, and gone to sleep,
			// between our looks at the two. Then a look at both shows it.
			if after, _ := threads(pids); before == after {
				return
			}
		}
		require.Less(t, time.Since(start), deadline, "still busy: %s", before)
		time.Sleep(200 * time.Microsecond)
	}
}

// threads is all that there is to see of the activity of processes, and whether
// there is none.
func threads(pids []int) (seen string, settled bool) {
	var b strings.Builder
	settled = true
	stopped := false
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				settled = false // it has just ended
			}
			for line := range strings.Lines(string(data)) {
				name, value, _ := strings.Cut(line, ":")
				value = strings.TrimSpace(value)
				switch name {
				case "State":
					stopped = value[0] == 'T'
					settled = settled && strings.ContainsAny(value[:1], "STZ")
				case "SigPnd", "ShdPnd":
					settled = settled && (stopped || strings.Trim(value, "0") == "")
				case "Pid", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
				default:
					continue
				}
				fmt.Fprintf(&b, "%s %s; ", name, value)
			}
		}
	}
	return b.String(), settled
}

// state is the letter by which proc(5) has the state of a process, X for one
// that is gone.
func state(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "X"
	}
	// The name, in parentheses, may contain anything.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	return rest[:1]
}
