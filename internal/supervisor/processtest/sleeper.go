// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package processtest has processes for tests.
package processtest

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sleeper starts a process that ignores SIGTERM, in a process group of its own if group is
// true. end waits for its end.
func Sleeper(t *testing.T, group bool) (pid int, end func() syscall.WaitStatus) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" TERM; echo; exec sleep 60`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process.Pid, func() syscall.WaitStatus {
		_ = cmd.Wait()
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
}
