// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package outcome has how a container ends: exit codes, and the reasons for which the
// supervisor doesn't exit with the command's code.
package outcome

import (
	"errors"
	"strconv"
	"syscall"

	"github.com/entrypointer/entrypointer/internal/signals"
)

// A Reason is why the container ends.
type Reason string

// The reasons.
const (
	Exited       Reason = "Exited"
	Signalled    Reason = "Signalled"
	OOMKilled    Reason = "OOMKilled"
	Timeout      Reason = "Timeout"
	StartFailure Reason = "StartFailure"
	HookFailure  Reason = "HookFailure"
	Stopped      Reason = "Stopped" // an ending signal arrived before the command was started

	Unneeded          Reason = "Unneeded"          // ended by -stop-when
	DependencyFailure Reason = "DependencyFailure" // a dependency has failed
)

// Exit codes for a command that wasn't started or took too long, as in env(1),
// timeout(1) and POSIX shells.
const (
	CodeDependency    = 123 // as in xargs(1): a command that it ran has failed
	CodeTimeout       = 124
	CodeOwnFailure    = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// A Failure is a reason for which the supervisor doesn't exit with the command's exit
// code. It has a line of text for a person, and a code and a reason for programs.
type Failure struct {
	Code   int
	Reason Reason
	Text   string
}

func (f *Failure) Error() string { return f.Text }

// New returns a Failure.
func New(code int, reason Reason, text string) *Failure { return &Failure{code, reason, text} }

// Own is a failure of the supervisor itself.
func Own(text string) *Failure { return &Failure{CodeOwnFailure, StartFailure, text} }

// Start is the failure of a command that can't be executed.
func Start(code int, text string) *Failure { return &Failure{code, StartFailure, text} }

// As converts err to a Failure. Errors of other packages become failures of the
// supervisor.
func As(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return Own(err.Error())
}

// StoppedBy is the failure of a command that was not started because an ending signal
// arrived first.
func StoppedBy(sig syscall.Signal, during string) *Failure {
	return &Failure{128 + int(sig), Stopped, "ended by " + signals.Name(sig) + " during " + during + ": the command was not started"}
}

// ExitCode returns the exit code with which a shell reports the end of a process.
func ExitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// Describe says how a process ended.
func Describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "was killed by " + signals.Name(status.Signal())
	}
	return "exited with " + strconv.Itoa(status.ExitStatus())
}
