// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/why"
)

const graphExamples = `  kubectl entrypointer graph job/report
  kubectl entrypointer graph deployment/web -o mermaid
  kubectl entrypointer graph pod/x -o dot | dot -Tsvg > x.svg
  kubectl entrypointer graph -f job.yaml`

var graphDescription = `Show what the containers of an object's pods have to do with each other: who waits for
whom, who ends with whom, and the pipes. TYPE is ` + target.Types(target.All()) + `, and pod
by default. For a pod, it is the graph of this pod, and otherwise that of a pod that would
be created now, by a dry run, or else of the newest pod. With -f, the pods of the objects
of a file are drawn, which need not exist; - stands for stdin.

The exit code is 0 if there is a graph, 79 if no containers have something to do with each
other, or if a pod would be refused, 64 for wrong arguments, and 1 if that couldn't be
found out.`

// graphSettings are the values of the flags.
type graphSettings struct{ file, output string }

func graphCommand() *cobra.Command {
	var s graphSettings
	var from *cluster
	command := &cobra.Command{
		Use: "graph ([TYPE/]NAME | -f FILE)", Short: "Show who waits for whom", Long: graphDescription, Example: graphExamples,
		RunE: func(command *cobra.Command, args []string) error {
			draw, known := drawings[s.output]
			if !known {
				return &usageError{fmt.Errorf("--output is %q: use text, dot or mermaid", s.output)}
			}
			if len(args) > 1 || (len(args) == 1) == (s.file != "") {
				return &usageError{errors.New("name one object, as TYPE/NAME, or a file by -f")}
			}
			graphs, err := s.ask(command, from, args)
			if len(graphs) > 0 {
				_, errOut := io.WriteString(command.OutOrStdout(), printable.Text(draw(graphs)))
				err = errors.Join(errOut, err)
			}
			if len(graphs) == 0 || slices.ContainsFunc(graphs, func(g graph) bool { return len(g.relations) > 0 }) {
				return err
			}
			return orFinding(err, errFinding)
		},
	}
	command.Flags().StringVarP(&s.file, "filename", "f", "", "draw the pods of the objects of a file, - for stdin")
	command.Flags().StringVarP(&s.output, "output", "o", "text", "text, dot or mermaid")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	completeOutput(command, "text", "dot", "mermaid")
	return command
}

// ask returns the graph of the object that is named, or those of the file. It returns an
// error beside the graphs that there are.
func (s *graphSettings) ask(command *cobra.Command, from *cluster, args []string) (graphs []graph, err error) {
	var missing error
	add := func(p *corev1.Pod, answer *why.Answer) {
		answer.Explain(command.ErrOrStderr()) // the graph may be that of an older pod
		switch {
		case p != nil:
			graphs = append(graphs, graphOf(answer.Target, p))
		case answer.Now != nil: // it would be refused
			missing = cmp.Or(missing, errFinding)
		default:
			missing = errors.New("there is no pod to draw")
		}
	}
	if s.file != "" {
		err := preview(command, from, s.file, add)
		return graphs, orFinding(err, missing)
	}
	named, client, err := from.connectFor(args[0])
	if err != nil {
		return nil, err
	}
	p, answer, err := (&why.Cluster{Client: *client}).AskForPod(command.Context(), named)
	if err != nil {
		return nil, err
	}
	add(p, answer)
	return graphs, missing
}
