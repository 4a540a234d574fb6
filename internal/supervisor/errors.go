// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"

	"github.com/entrypointer/entrypointer/internal/signals"
)

// Exit codes for a command that wasn't started or took too long, as in env(1),
// timeout(1) and POSIX shells.
const (
	exitDependency    = 123 // as in xargs(1): a command that it ran has failed
	exitTimeout       = 124
	exitOwnFailure    = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// A failure is a reason for which the supervisor doesn't exit with the command's exit
// code. It has a line of text for a person, and a code and a reason for programs.
type failure struct {
	code   int
	reason reason
	text   string
}

func (f *failure) Error() string { return f.text }

// ownFailure is a failure of the supervisor itself.
func ownFailure(text string) *failure { return &failure{exitOwnFailure, reasonStartFailure, text} }

// newStartFailure is the failure of a command that can't be executed.
func newStartFailure(code int, text string) *failure { return &failure{code, reasonStartFailure, text} }

// asFailure converts err to a failure. Errors of other packages become failures of the
// supervisor.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return ownFailure(err.Error())
}

// printFailure prints err and returns the exit code.
func printFailure(err error) int {
	f := asFailure(err)
	say(f.text)
	return f.code
}

// say prints a line in one write, so that lines of several processes don't mix.
func say(line string) {
	write([]byte("entrypointer: " + line + "\n"))
}

// write is what say calls. With an Output, it goes there.
var write = writeToStderr

func writeToStderr(line []byte) {
	withTTOUBlocked(func() { // it may be a terminal (stty tostop)
		// An error of stderr can't be reported anywhere.
		_, _ = signals.Write(2, line)
	})
}
