// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/target"
)

const statusExamples = `  kubectl entrypointer status web-6b7f9c-x2x5k
  kubectl entrypointer status deployment/web -w
  kubectl entrypointer status deployment/web job/report
  kubectl entrypointer status taskrun/build -o json
  kubectl entrypointer status deployment/web -o wide`

var statusDescription = `Say what each container of the pods of objects does at the moment, and what it waits for.
TYPE is ` + target.Types(target.All()) + `, and pod by default.

The supervisors of containers that run are asked, as by kubectl exec: for that, you need
the right to create pods/exec. Without it, the answer is the kubelet's.

The exit code is 1 if there is no answer about one of several objects; those about the
others are printed.`

// watchInterval is how often -w looks.
const watchInterval = time.Second

// statusSettings are the values of the flags.
type statusSettings struct {
	watch  bool
	output string
}

func statusCommand() *cobra.Command {
	var s statusSettings
	var from *cluster
	command := &cobra.Command{
		Use: "status [TYPE/]NAME...", Short: "Say what containers do, and what they wait for", Long: statusDescription, Example: statusExamples,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("name objects, as TYPE/NAME")}
			}
			if err := checkOutput(s.output, wide); err != nil {
				return &usageError{err}
			}
			if s.watch && s.output != "" && s.output != wide {
				return &usageError{fmt.Errorf("--watch and --output are both set: use one of them, because the document is one")}
			}
			targets, err := parseAll(args)
			if err != nil {
				return err
			}
			client, err := from.connect()
			if err != nil {
				return err
			}
			reader := podstatus.NewReader(client)
			return s.run(command.Context(), command.OutOrStdout(), reader, targets)
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&s.watch, "watch", "w", false, "print the status again whenever it changes, until all pods have ended")
	flags.StringVarP(&s.output, "output", "o", "", "json or yaml, instead of text, or wide: with nodes, IP addresses, restarts and exit codes")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 0)
	completeOutput(command, "json", "yaml", wide)
	return command
}

func (s *statusSettings) run(ctx context.Context, out io.Writer, reader *podstatus.Reader, targets []target.Target) error {
	answers, err := reader.ReadAll(ctx, targets)
	if s.output != "" && s.output != wide {
		return errors.Join(printDocument(out, s.output, answers), err)
	}
	for {
		if err := errors.Join(answers.Print(out, time.Now(), s.output == wide), err); err != nil {
			return err
		}
		if !s.watch {
			return nil
		}
		last := answers
		for !answers.Changed(last, s.output == wide) {
			if answers.Ended() { // a Job ends after its last pod, which nothing shows
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(watchInterval):
			}
			if answers, err = reader.ReadAll(ctx, targets); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
	}
}
