// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/lookup"
)

const rightToTell = `
TYPE is one of kubectl entrypointer status. The supervisors are told as by kubectl exec:
for that, you need the right to create pods/exec.

The exit code is 0 if all of them were told, 79 if there was none to tell, and 1 if one
couldn't be told.`

func continueCommand() *cobra.Command {
	return tellCommand(&cobra.Command{
		Use: "continue [TYPE/]NAME", Short: "End the pauses of containers", Args: oneObject,
		Long:    "End the pauses (option pause) of the containers of an object's pods." + rightToTell,
		Example: "  kubectl entrypointer continue taskrun/build\n  kubectl entrypointer continue web-6b7f9c-x2x5k -c web",
	}, 0, "continues", []string{"Paused"}, func([]string) []string { return []string{"continue"} })
}

func signalCommand() *cobra.Command {
	return tellCommand(&cobra.Command{
		Use: "signal SIGNAL [TYPE/]NAME", Short: "Send a signal to the commands of containers", Args: signalAndObject,
		Long:    "Send a signal, such as SIGHUP, to the commands of the containers of an object's pods." + rightToTell,
		Example: "  kubectl entrypointer signal SIGHUP deployment/web -c nginx",
	}, 1, "got the signal", []string{"Running", "Stopping"}, func(args []string) []string {
		name, _ := lookup.ParseStopSignal(args[0])
		return []string{"signal", name}
	})
}

// signalAndObject checks the arguments of signal. Those who ask supervisors would get the
// same error from each.
func signalAndObject(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return &usageError{errors.New("name a signal, such as SIGHUP, and one object, as TYPE/NAME")}
	}
	if _, known := lookup.ParseStopSignal(args[0]); !known {
		return &usageError{fmt.Errorf("%q is no signal: use a name such as SIGHUP or RTMIN+3, or a number", args[0])}
	}
	return nil
}

// tellCommand completes a command with an argument that names an object, behind as many
// others. The supervisors in these phases are told the words.
func tellCommand(command *cobra.Command, before int, done string, phases []string, words func(args []string) []string) *cobra.Command {
	var container string
	var from *cluster
	command.RunE = func(command *cobra.Command, args []string) error {
		named, client, err := from.connectFor(args[before])
		if err != nil {
			return err
		}
		reader := podstatus.NewReader(client)
		told, report, err := reader.Tell(command.Context(), named, podstatus.Command{Words: words(args), Container: container, Phases: phases})
		if err != nil {
			return err
		}
		return printTold(command.OutOrStdout(), done, told, report, container)
	}
	command.Flags().StringVarP(&container, "container", "c", "", "only containers of this name")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), before, 1)
	return command
}

func printTold(out io.Writer, done string, told []podstatus.Told, report *podstatus.Report, container string) error {
	var failures []error
	for _, t := range told {
		if t.Err != nil {
			failures = append(failures, fmt.Errorf("pod/%s, container %s: %s", t.Pod, t.Container, printable.Line(t.Err.Error())))
			continue
		}
		fmt.Fprintf(out, "pod/%s, container %s: %s\n", t.Pod, t.Container, done)
	}
	for _, p := range report.Pods {
		for _, c := range p.Containers {
			if c.Unanswered != "" && (container == "" || container == c.Name) {
				failures = append(failures, fmt.Errorf("pod/%s, container %s: its supervisor doesn't tell what it does: %s", p.Name, c.Name, printable.Line(c.Unanswered)))
			}
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if len(told) > 0 {
		return nil
	}
	if names := containersOf(report); container != "" && len(names) > 0 && !slices.Contains(names, container) {
		return logreader.NoContainer(report.Target, report.Namespace, container, names)
	}
	fmt.Fprintf(out, "%s in namespace %s: no container was told; kubectl entrypointer status says what they do\n", report.Target, report.Namespace)
	return errFinding
}

// containersOf returns the names of the containers of an object's pods.
func containersOf(report *podstatus.Report) (names []string) {
	for _, p := range report.Pods {
		for _, c := range p.Containers {
			names = append(names, c.Name)
		}
	}
	return names
}
