// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// guarded runs a shell script that changes something, and returns how to run another one that
// undoes it. The other one runs also when this process dies, however it dies: a shell waits
// for the end of a pipe that only this process holds. A file is the shell's descriptor 3.
func guarded(ctx context.Context, change, undo string, file *os.File) (healer, error) {
	// The shell outlives ctx, which may end before the healer is called.
	command := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", change+` || exit 1; echo changed; cat >/dev/null; `+undo)
	// Ctrl-C on a terminal is for this process only.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if file != nil {
		command.ExtraFiles = []*os.File{file}
	}
	var complaints strings.Builder
	command.Stderr = &complaints
	end, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("running %q: %w", change, err)
	}
	answer := make([]byte, len("changed\n"))
	if _, err := io.ReadFull(said, answer); err != nil {
		_ = command.Wait()
		return nil, fmt.Errorf("running %q: %w: %s", change, err, strings.TrimSpace(complaints.String()))
	}
	return func(context.Context) error {
		_ = end.Close()
		if err := command.Wait(); err != nil {
			return fmt.Errorf("running %q: %w: %s", undo, err, strings.TrimSpace(complaints.String()))
		}
		return nil
	}, nil
}
