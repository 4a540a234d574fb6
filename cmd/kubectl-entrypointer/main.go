// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Kubectl-entrypointer is a plugin of kubectl. kubectl entrypointer logs prints the logs of
// containers from the log service, also after their pods are gone.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/version"
)

func main() {
	root := &cobra.Command{
		Use:           "kubectl-entrypointer",
		Short:         "Read what entrypointer has collected from pods",
		Version:       version.Own(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl entrypointer"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(logsCommand())
	err := root.Execute()
	code := exitCode(err)
	if code == exitFailure {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
	}
	os.Exit(code)
}

// The exit codes, which docs/logs.md lists.
const (
	exitFailure = 1
	exitCutOff  = 3 // warnings have named the streams
)

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, is := errors.AsType[*logreader.CutOffError](err); is {
		return exitCutOff
	}
	return exitFailure
}
