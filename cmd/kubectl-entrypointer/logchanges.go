// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
)

const deleteDescription = `Delete logs from the log service: of a pod, of all pods of a run or a controller, or of a
container of theirs. They are gone at once, and can't be restored. Copies that were sent
on or printed elsewhere stay.

What a container prints later is kept. What it has printed, but not sent yet, comes later:
for a container that runs, repeat the command after 30 s.

With --grep, only the lines that match are deleted: each of their bytes becomes an
asterisk, at once for all readers, and in the storage until the command ends. The log
service searches first, so you also need the right to read the logs, and lines that are
printed after the search stay. With --dry-run, the lines are printed. The exit code is 79 if
no line matches.

Logs that are held can't be deleted: release them first.

The right is that to delete logs of the API group logs.entrypointer.dev, such as by the
ClusterRole entrypointer-log-deletion. kubectl delete logs POD does the same.`

func deleteLogsCommand() *cobra.Command {
	var from *cluster
	var dryRun bool
	var grep grepSettings
	command := &cobra.Command{
		Use: "delete-logs [TYPE/]NAME [CONTAINER]", Short: "Delete logs", Long: deleteDescription, Args: usageArgs(cobra.RangeArgs(1, 2)),
		Example: "  kubectl entrypointer delete-logs pod/x --dry-run\n  kubectl entrypointer delete-logs taskrun/build\n  kubectl entrypointer delete-logs taskrun/build step-test\n  kubectl entrypointer delete-logs taskrun/build --grep 'password=' --dry-run",
		RunE: func(command *cobra.Command, args []string) error {
			logs, of, err := changed(args, from)
			if err != nil {
				return err
			}
			container := ""
			if len(args) == 2 {
				container = args[1]
			}
			if grep.expression != "" || command.Flags().Changed("ignore-case") {
				return deleteLines(command, logs, of, container, grep, dryRun)
			}
			errPrint := error(nil)
			err = logs.Delete(command.Context(), of, container, dryRun, func(d logreader.Deletion) {
				text := d.Message
				if dryRun {
					text = "not " + text + " (dry run)"
				}
				if d.Err != nil {
					text = "failed"
				}
				_, failed := fmt.Fprintf(command.OutOrStdout(), "pod/%s: %s\n", d.Pod, printable.Line(text))
				errPrint = errors.Join(errPrint, failed)
			})
			return errors.Join(err, errPrint)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
	flags.StringVar(&grep.expression, "grep", "", "delete only lines that match a regular expression (RE2), as those of logs --grep")
	flags.BoolVarP(&grep.ignoreCase, "ignore-case", "i", false, "with --grep, ignore the case of letters")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	return command
}

// deleteLines deletes the lines that match.
func deleteLines(command *cobra.Command, logs *logreader.Client, of target.Target, container string, grep grepSettings, dryRun bool) error {
	if _, err := grep.compile(); err != nil {
		return &usageError{err}
	}
	out, errPrint := command.OutOrStdout(), error(nil)
	options := logreader.Options{Target: of, Container: container, Printer: logreader.NewPrinter(out), Warnings: command.ErrOrStderr()}
	err := logs.DeleteLines(command.Context(), options, grep.search(0), dryRun, func(d logreader.LinesDeletion) {
		text := fmt.Sprintf("deleted %d lines", d.Lines)
		switch {
		case d.Err != nil:
			text = "failed"
		case dryRun:
			text = "not " + text + " (dry run)"
		}
		_, failed := fmt.Fprintf(out, "%s: %s\n", printable.Line("pod/"+d.Of.Pod+"/"+d.Of.Container+" "+d.Of.Name), text)
		errPrint = errors.Join(errPrint, failed)
	})
	if errors.Is(err, logreader.ErrNothingFound) {
		return errFinding
	}
	return errors.Join(err, errPrint)
}

// changed returns the client and the target of a command that changes logs.
func changed(args []string, from *cluster) (*logreader.Client, target.Target, error) {
	of, err := target.Parse(args[0], target.All())
	if err != nil {
		return nil, of, &usageError{err}
	}
	client, err := from.connect()
	if err != nil {
		return nil, of, err
	}
	return &logreader.Client{REST: client.REST, Namespace: client.Namespace}, of, nil
}

const holdDescription = `Keep logs until they are released: neither their age nor the quota of the namespace
deletes them, and nobody else does. A hold of a run or a controller includes its pods that
begin later. kubectl entrypointer logs --list -o wide shows what is held.

The right is that to create logs/hold of the API group logs.entrypointer.dev, such as by
the ClusterRole entrypointer-log-deletion.`

func holdLogsCommand() *cobra.Command {
	return holdCommand("hold-logs", "Keep logs beyond their retention", holdDescription, "held", (*logreader.Client).Hold)
}

func releaseLogsCommand() *cobra.Command {
	return holdCommand("release-logs", "Undo hold-logs", "Undo kubectl entrypointer hold-logs of the same object.", "released", (*logreader.Client).Release)
}

func holdCommand(name, short, long, did string, change func(*logreader.Client, context.Context, target.Target) error) *cobra.Command {
	var from *cluster
	command := &cobra.Command{
		Use: name + " [TYPE/]NAME", Short: short, Long: long, Args: usageArgs(cobra.ExactArgs(1)),
		Example: "  kubectl entrypointer " + name + " taskrun/build",
		RunE: func(command *cobra.Command, args []string) error {
			logs, of, err := changed(args, from)
			if err != nil {
				return err
			}
			if err := change(logs, command.Context(), of); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "the logs of %s are %s\n", of, did)
			return err
		},
	}
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	return command
}
