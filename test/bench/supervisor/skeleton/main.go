// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Skeleton is the least that a supervisor in Go can be: what it costs is the
// language's, and the rest of what ours costs is ours. It does as little as
// mode exec does if its first argument is "exec".
package main

import (
	"os"
	"syscall"
)

func main() {
	if os.Args[1] == "exec" {
		_ = syscall.Exec(os.Args[2], os.Args[2:], syscall.Environ())
		os.Exit(127)
	}
	pid, err := syscall.ForkExec(os.Args[2], os.Args[2:], &syscall.ProcAttr{Env: syscall.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		os.Exit(127)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		os.Exit(125)
	}
	os.Exit(status.ExitStatus())
}
