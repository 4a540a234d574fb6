// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package console prints the supervisor's own lines.
package console

import (
	"syscall"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// Say prints a line in one write, so that lines of several processes don't mix.
func Say(line string) {
	write([]byte("entrypointer: " + line + "\n"))
}

// write is what Say calls.
var write = writeToStderr

// Redirect has Say call this function from now on, or print on stderr again if it is nil.
func Redirect(to func(line []byte)) {
	if to == nil {
		to = writeToStderr
	}
	write = to
}

func writeToStderr(line []byte) {
	terminal.WithTTOUBlocked(func() { // it may be a terminal (stty tostop)
		// An error of stderr can't be reported anywhere.
		_, _ = signals.Write(2, line)
	})
}

// Fail prints err and returns the exit code.
func Fail(err error) int {
	f := outcome.As(err)
	Say(f.Text)
	return f.Code
}

// Stdout writes to stdout, and reports whether that succeeded.
func Stdout(text string) bool {
	_, err := syscall.Write(1, []byte(text))
	return err == nil
}
