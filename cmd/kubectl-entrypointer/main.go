// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Kubectl-entrypointer is a plugin of kubectl. kubectl entrypointer why says whether pods are
// wrapped, and why; status what their containers do, and timeline where their time went; ui
// shows the latter in a browser, with logs; logs
// prints the logs of containers from the log service, also after their pods are gone.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/version"
)

func main() {
	err := execute(rootCommand(), os.Args[1:])
	code := exitCode(err)
	if code == exitFailure || code == exitUsage {
		fmt.Fprintf(os.Stderr, "error: %s\n", printable.Text(err.Error()))
	}
	os.Exit(code)
}

// execute runs the command that the arguments name. One that doesn't exist is an error of
// usage.
func execute(root *cobra.Command, args []string) error {
	root.SetArgs(args)
	err := root.Execute()
	if _, _, unknown := root.Find(args); unknown != nil {
		return &usageError{unknown}
	}
	return err
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-entrypointer",
		Short:         "Ask what entrypointer does with pods, and read what it has collected",
		Version:       version.Own(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl entrypointer"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(checkCommand(), versionCommand(), whyCommand(), injectCommand(), statusCommand(), graphCommand(), timelineCommand(), uiCommand(), continueCommand(), signalCommand(), logsCommand(), deleteLogsCommand(), holdLogsCommand(), releaseLogsCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	return root
}

// The exit codes, which docs/cli.md lists.
const (
	exitFailure = 1
	exitCutOff  = 3  // warnings have named the streams
	exitUsage   = 64 // EX_USAGE of sysexits.h
	exitFinding = 79
)

// errFinding is the error of a question whose answer isn't yes. The answer is printed.
var errFinding = errors.New("the answer isn't yes")

// errUnknown is the error of a question that has no answer.
var errUnknown = errors.New("that couldn't be found out; what is unknown is above")

// A usageError is the error of wrong arguments.
type usageError struct{ error }

// Unwrap returns the cause.
func (e *usageError) Unwrap() error { return e.error }

// usageArgs makes the errors of wrong arguments errors of usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

func exitCode(err error) int {
	_, isUsage := errors.AsType[*usageError](err)
	_, isCutOff := errors.AsType[*logreader.CutOffError](err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFinding):
		return exitFinding
	case isUsage:
		return exitUsage
	case isCutOff:
		return exitCutOff
	default:
		return exitFailure
	}
}
