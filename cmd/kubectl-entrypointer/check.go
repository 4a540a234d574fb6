// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/check"
)

const checkExamples = `  kubectl entrypointer check
  kubectl entrypointer check --before --registry registry.example.com/entrypointer
  kubectl entrypointer check --wait 2m
  kubectl entrypointer check -o json | jq -r '.checks[] | select(.state == "Failed")'`

const checkDescription = `Check whether the cluster can have entrypointer, or whether what it has of it works.
In a cluster without entrypointer, and with --before, the checks are those before an
install: the API server's version, the nodes, your rights, and the registry. Otherwise
they are those of the injector, its webhooks, the deliveries, the log service, and the
namespaces that opted in. With --namespace, only that namespace is looked at.

The objects of the cluster are compared with the manifests of this release, and what
can only be tried is tried by dry runs: nothing is changed. An operator has the rights
for all checks. Of a check that needs another right than you have, the result is unknown.

The exit code is 0 if no check fails, warnings aside, 79 if one fails, 64 for wrong
arguments, and 1 if none fails and one is unknown.`

// betweenChecks is the time between two runs of all checks, for --wait.
const betweenChecks = 2 * time.Second

// errUnchecked is the error of checks of which none fails, and some are unknown.
var errUnchecked = errors.New("some checks have no result; the reasons are above")

func checkCommand() *cobra.Command {
	var options check.Options
	var wait time.Duration
	var output string
	var from *cluster
	command := &cobra.Command{
		Use: "check", Short: "Say whether the cluster can have entrypointer, and whether it works", Long: checkDescription, Example: checkExamples,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return &usageError{err}
			}
			client, err := from.connect()
			if err != nil {
				return err
			}
			options.OnlyNamespace = command.Flags().Changed("namespace")
			needsInstall := wait > 0 && !options.Before
			report, err := checkUntil(command.Context(), time.Now().Add(wait), needsInstall, func(ctx context.Context) (*check.Report, error) {
				return check.Run(ctx, *client, options)
			})
			if err != nil {
				return err
			}
			if output == "" {
				err = report.Print(command.OutOrStdout())
			} else {
				err = printDocument(command.OutOrStdout(), output, report)
			}
			if err != nil {
				return err
			}
			return checkVerdict(report, needsInstall)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&options.Before, "before", false, "check what an install needs, though the cluster has entrypointer")
	flags.StringVar(&options.Registry, "registry", os.Getenv("KO_DOCKER_REPO"), "where ko is to push the images, for the checks before an install; KO_DOCKER_REPO by default")
	flags.DurationVar(&wait, "wait", 0, "try again for this long, until entrypointer is installed and no check fails")
	flags.StringVarP(&output, "output", "o", "", "json or yaml, instead of text")
	from = kubectlFlags(command)
	completeOutput(command, "json", "yaml")
	return command
}

// checkUntil runs the checks until none fails, and entrypointer is installed if it has to be,
// or until a time.
func checkUntil(ctx context.Context, end time.Time, needsInstall bool, run func(context.Context) (*check.Report, error)) (*check.Report, error) {
	for {
		report, err := run(ctx)
		isGood := err == nil && report.Count(check.Failed) == 0 && (!needsInstall || report.Installed != nil && *report.Installed)
		if isGood || time.Until(end) < betweenChecks {
			return report, err
		}
		select {
		case <-ctx.Done():
			return report, err
		case <-time.After(betweenChecks):
		}
	}
}

// checkVerdict returns the error for the exit code.
func checkVerdict(report *check.Report, needsInstall bool) error {
	isAbsent := report.Installed != nil && !*report.Installed
	switch {
	case report.Count(check.Failed) > 0, needsInstall && isAbsent:
		return errFinding
	case report.Count(check.Unknown) > 0:
		return errUnchecked
	}
	return nil
}
