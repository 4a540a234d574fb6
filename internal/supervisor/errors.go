// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"syscall"
)

// Exit codes for a command that never ran, as of env(1) and POSIX shells.
const (
	exitOwnFailure    = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// A failure is why there is no child: one line for a person, one code for a
// program.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// ownFailure is a failure that is not the command's.
func ownFailure(text string) *failure { return &failure{exitOwnFailure, text} }

// report writes err to stderr as one line, in one write so that lines of
// several processes don't mix, and returns the code to exit with.
func report(err error) int {
	// There is nobody left to tell when stderr can't be written.
	_, _ = syscall.Write(2, []byte("entrypointer: "+err.Error()+"\n"))
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitOwnFailure
}
