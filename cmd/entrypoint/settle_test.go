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

// settle waits until the processes have handled everything that was sent to them: all
// their threads are asleep without pending signals, stopped, or dead. So a test can
// prove without a clock that something does not happen.
func settle(t testing.TB, pids ...int) {
	t.Helper()
	for start := time.Now(); ; {
		before, settled := threads(t, pids)
		if settled {
			// One thread may have woken another and gone to sleep between the looks at
			// the two. A second look at both shows that.
			if after, _ := threads(t, pids); before == after {
				return
			}
		}
		require.Less(t, time.Since(start), deadline, "still busy: %s", before)
		time.Sleep(200 * time.Microsecond)
	}
}

// threads describes the activity of all threads, and reports whether there is none.
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
				// A thread is reported as sleeping while it still checks for a reason
				// not to sleep. The kernel reports its system call only once it is off
				// the CPU.
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

// state is the letter of the process's state in proc(5), X if the process is gone.
func state(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "X"
	}
	// The process name, in parentheses, may contain any character.
	return string(data[bytes.LastIndexByte(data, ')')+2:][:1])
}

func dead(pid int) bool {
	s := state(pid)
	return s == "X" || s == "Z"
}
