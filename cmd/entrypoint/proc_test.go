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

	"github.com/stretchr/testify/require"
)

// statusField returns a field of /proc/PID/status.
func statusField(t testing.TB, pid int, name string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	require.Fail(t, "no such field", name)
	return ""
}

// executable returns the file that pid executes, or "" if pid has ended. Of an emulated
// program (hack/emulated.sh), the kernel names the emulator, whose first argument is the
// program.
func executable(pid int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if !strings.HasPrefix(filepath.Base(name), "qemu-") {
		return name
	}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	program := strings.Split(string(args), "\x00")
	return program[min(1, len(program)-1)]
}

// silence returns a descriptor on which a read blocks forever.
func silence(t testing.TB) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = read.Close()
		_ = write.Close()
	})
	return read
}
