// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
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
		before, settled := threads(t, pids)
		if settled {
			// One thread may have woken another, and gone to sleep,
			// between our looks at the two. Then a look at both shows it.
			if after, _ := threads(t, pids); before == after {
				return
			}
		}
		require.Less(t, time.Since(start), deadline, "still busy: %s", before)
		time.Sleep(200 * time.Microsecond)
	}
}

// threads is all that there is to see of the activity of processes, and whether
// there is none.
func threads(t testing.TB, pids []int) (seen string, settled bool) {
	t.Helper()
	var b strings.Builder
	settled = true
	for _, pid := range pids {
		dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, dir := range dirs {
			data, err := os.ReadFile(dir + "/status")
			if err != nil {
				settled = false // it has just ended
				continue
			}
			field := make(map[string]string)
			for line := range strings.Lines(string(data)) {
				name, value, _ := strings.Cut(line, ":")
				field[name] = strings.TrimSpace(value)
			}
			fmt.Fprintf(&b, "%s %s, signals %s %s, switched %s %s times; ", field["Pid"], field["State"], field["SigPnd"], field["ShdPnd"],
				field["voluntary_ctxt_switches"], field["nonvoluntary_ctxt_switches"])
			switch field["State"][0] {
			case 'Z', 'T':
			case 'S':
				// A thread calls itself asleep while it looks for a reason
				// not to sleep. The kernel knows its system call only once
				// it is off its processor.
				call, err := os.ReadFile(dir + "/syscall")
				if err != nil || strings.HasPrefix(string(call), "running") || strings.Trim(field["SigPnd"]+field["ShdPnd"], "0") != "" {
					settled = false
				}
				require.NotErrorIs(t, err, os.ErrPermission)
			default:
				settled = false
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
	return string(data[bytes.LastIndexByte(data, ')')+2:][:1])
}

func dead(pid int) bool {
	s := state(pid)
	return s == "X" || s == "Z"
}
