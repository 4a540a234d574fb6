// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
)

// Exit codes for a command that never ran, or took too long, as of env(1),
// timeout(1) and POSIX shells.
const (
	exitDependency    = 123 // of xargs(1): what it ran has failed
	exitTimeout       = 124
	exitOwnFailure    = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// A failure is why the container's end is not the command's: one line for a
// person, one code and one reason for programs.
type failure struct {
	code   int
	reason reason
	text   string
}

func (f *failure) Error() string { return f.text }

// ownFailure is a failure that is not the command's.
func ownFailure(text string) *failure { return &failure{exitOwnFailure, reasonStartFailure, text} }

// startFailed is the failure of a command that can't be executed.
func newStartFailure(code int, text string) *failure { return &failure{code, reasonStartFailure, text} }

// asFailure is err, which may have been made by a package that knows no failures.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return ownFailure(err.Error())
}

// report says what err is and returns the code to exit with.
func printFailure(err error) int {
	f := asFailure(err)
	say(f.text)
	return f.code
}

// say writes to stderr what is ours to say, in one write so that lines of
// several processes don't mix.
func say(line string) {
	write([]byte("entrypointer: " + line + "\n"))
}

// write is what say writes with.
var write = writeToStderr

func writeToStderr(line []byte) {
	fromBehind(func() { // it may be a terminal (stty tostop)
		// There is nobody left to tell when stderr can't be written.
		_, _ = Write(2, line)
	})
}
