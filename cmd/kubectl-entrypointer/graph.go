// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const graphExamples = `  kubectl entrypointer graph job/report
  kubectl entrypointer graph deployment/web -o mermaid
  kubectl entrypointer graph pod/x -o dot | dot -Tsvg > x.svg`

var graphDescription = `Show what the containers of an object's pods have to do with each other: who waits for
whom, who ends with whom, and the pipes. TYPE is ` + target.Types(target.All()) + `, and pod
by default. For a pod, it is the graph of this pod, and otherwise that of a pod that would
be created now, by a dry run, or else of the newest pod.

The exit code is 0 if there is a graph, 79 if the containers have nothing to do with each
other, 64 for wrong arguments, and 1 if that couldn't be found out.`

func graphCommand() *cobra.Command {
	var output string
	var from *cluster
	command := &cobra.Command{
		Use: "graph [TYPE/]NAME", Short: "Show who waits for whom", Long: graphDescription, Example: graphExamples,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			draw, known := drawings[output]
			if !known {
				return &usageError{fmt.Errorf("--output is %q: use text, dot or mermaid", output)}
			}
			named, client, err := from.connectFor(args[0])
			if err != nil {
				return err
			}
			p, answer, err := (&why.Cluster{Client: *client}).AskForPod(command.Context(), named)
			if err != nil {
				return err
			}
			answer.Explain(command.ErrOrStderr()) // the graph may be that of an older pod
			if p == nil {
				return errors.New("there is no pod to draw")
			}
			relations := pod.Relations(p)
			if _, err := io.WriteString(command.OutOrStdout(), printable.Text(draw(relations))); err != nil {
				return err
			}
			if len(relations) == 0 {
				return errFinding
			}
			return nil
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "text", "text, dot or mermaid")
	from = kubectlFlags(command)
	return command
}

// drawings are the formats.
var drawings = map[string]func([]pod.Relation) string{"text": asText, "dot": asDot, "mermaid": asMermaid}

func asText(relations []pod.Relation) string {
	if len(relations) == 0 {
		return "no container waits for another one\n"
	}
	var b strings.Builder
	for _, r := range relations {
		switch r.Option {
		case "depends-on":
			fmt.Fprintf(&b, "%s waits for %s: %s\n", r.Container, r.On, r.Condition)
		case "stop-when":
			fmt.Fprintf(&b, "%s ends with %s: %s\n", r.Container, r.On, r.Condition)
		case "stdin":
			fmt.Fprintf(&b, "%s reads what %s prints\n", r.Container, r.On)
		default:
			fmt.Fprintf(&b, "%s waits for %s\n", r.Container, r.On)
		}
	}
	return b.String()
}

// asDot draws for Graphviz. Arrows lead from what comes first.
func asDot(relations []pod.Relation) string {
	var b strings.Builder
	b.WriteString("digraph containers {\n  rankdir=LR\n")
	for _, r := range relations {
		style := ""
		if r.Option == "stop-when" {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  %q -> %q [label=%q%s]\n", r.On, r.Container, label(r), style)
	}
	b.WriteString("}\n")
	return b.String()
}

// asMermaid draws for Mermaid. Names can be words of its language, so nodes have others.
func asMermaid(relations []pod.Relation) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	nodes := map[string]string{}
	node := func(name string) string {
		if nodes[name] == "" {
			nodes[name] = fmt.Sprintf("c%d", len(nodes))
			fmt.Fprintf(&b, "  %s[\"%s\"]\n", nodes[name], strings.ReplaceAll(name, `"`, "#quot;"))
		}
		return nodes[name]
	}
	for _, r := range relations {
		from, to := node(r.On), node(r.Container)
		if r.Option == "stop-when" {
			fmt.Fprintf(&b, "  %s -. %s .-> %s\n", from, label(r), to)
			continue
		}
		fmt.Fprintf(&b, "  %s -- %s --> %s\n", from, label(r), to)
	}
	return b.String()
}

// label names an arrow.
func label(r pod.Relation) string {
	switch r.Option {
	case "stdin":
		return "pipe"
	case "stop-when":
		return "ends it: " + r.Condition
	default:
		return cmp.Or(r.Condition, "answers")
	}
}
