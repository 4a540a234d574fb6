// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Kubectl-entrypointer is a plugin of kubectl: kubectl entrypointer logs reads what
// containers have printed, from the log service, also when they are gone.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "kubectl-entrypointer",
		Short:         "Works with what the entrypointer does in pods",
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
