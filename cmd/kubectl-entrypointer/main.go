// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Kubectl-entrypointer is a plugin of kubectl. kubectl entrypointer logs prints the logs of
// containers from the log service, also after their pods are gone.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

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
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}
