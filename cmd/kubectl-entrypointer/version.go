// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/check"
)

const versionExamples = `  kubectl entrypointer version
  kubectl entrypointer version --client
  kubectl entrypointer version -o json | jq -r '.programs[].replicas[]?.version'`

const versionDescription = `Say which versions this plugin, the injector and the log service have, in what they differ,
and which is older.

The replicas in the cluster are asked for their metrics, for which you need the right to
get pods/proxy in the namespaces entrypointer-system and entrypointer-logs, and to list
pods there. Without it, the label app.kubernetes.io/version of the Deployments says which
release was applied.

The exit code is 0 if the versions are known, whether they differ or not, 64 for wrong
arguments, and 1 if one is unknown.`

func versionCommand() *cobra.Command {
	var client bool
	var output string
	var from *cluster
	command := &cobra.Command{
		Use: "version", Short: "Say which versions this plugin and the cluster have", Long: versionDescription, Example: versionExamples,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return &usageError{err}
			}
			versions := check.OwnVersion()
			if !client {
				connected, err := from.connect()
				if err != nil {
					return err
				}
				versions = check.AskVersions(command.Context(), *connected)
			}
			var err error
			if output == "" {
				err = versions.Print(command.OutOrStdout())
			} else {
				err = printDocument(command.OutOrStdout(), output, versions)
			}
			if err == nil && !versions.AreKnown() {
				return errUnknown
			}
			return err
		},
	}
	flags := command.Flags()
	flags.BoolVar(&client, "client", false, "say the version of this plugin only, and ask no cluster")
	flags.StringVarP(&output, "output", "o", "", "json or yaml, instead of text")
	from = kubectlFlags(command)
	completeOutput(command, "json", "yaml")
	return command
}
