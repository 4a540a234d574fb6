// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A graph is what the containers of a pod have to do with each other.
type graph struct {
	of        string // TYPE/NAME
	relations []pod.Relation
}

// graphOf returns the graph of a pod.
func graphOf(name string, p *corev1.Pod) graph {
	g := graph{printable.Line(name), pod.Relations(p)}
	for _, turn := range pod.Turns(p) {
		if turn.After != "" {
			g.relations = append(g.relations, pod.Relation{Container: turn.Step, On: turn.After, Condition: "ended"})
		}
	}
	for at := range g.relations { // a container has the flags that its author writes
		r := &g.relations[at]
		r.Container, r.On, r.Condition = printable.Line(r.Container), printable.Line(r.On), printable.Line(r.Condition)
	}
	return g
}

// containers returns the names of the nodes. Some are URLs.
func (g graph) containers() (names []string) {
	for _, r := range g.relations {
		for _, name := range []string{r.On, r.Container} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// drawings are the formats. Of several graphs, each is drawn with its object's name.
var drawings = map[string]func([]graph) string{"text": asText, "dot": asDot, "mermaid": asMermaid}

func asText(graphs []graph) string {
	if len(graphs) == 1 {
		return graphs[0].text()
	}
	var b strings.Builder
	for _, g := range graphs {
		b.WriteString(g.of + ":\n")
		for line := range strings.Lines(g.text()) {
			b.WriteString("  " + line)
		}
	}
	return b.String()
}

func (g graph) text() string {
	if len(g.relations) == 0 {
		return "no container waits for another one\n"
	}
	var b strings.Builder
	for _, r := range g.relations {
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
func asDot(graphs []graph) string {
	var b strings.Builder
	b.WriteString("digraph containers {\n  rankdir=LR\n")
	for at, g := range graphs {
		indent, id := "  ", func(name string) string { return name }
		if len(graphs) > 1 { // containers of different pods can have the same name
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q\n", at, g.of)
			indent, id = "    ", func(name string) string { return fmt.Sprintf("%d/%s", at, name) }
			for _, name := range g.containers() {
				fmt.Fprintf(&b, "    %q [label=%q]\n", id(name), name)
			}
		}
		for _, r := range g.relations {
			style := ""
			if r.Option == "stop-when" {
				style = ", style=dashed"
			}
			fmt.Fprintf(&b, "%s%q -> %q [label=%q%s]\n", indent, id(r.On), id(r.Container), label(r), style)
		}
		if len(graphs) > 1 {
			b.WriteString("  }\n")
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// mermaidText writes a text within quotes, in which Mermaid finds tags and entities.
var mermaidText = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;")

// asMermaid draws for Mermaid. Names can be words of its language, so nodes have others.
func asMermaid(graphs []graph) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	nodes := 0
	for at, g := range graphs {
		if len(graphs) > 1 {
			fmt.Fprintf(&b, "  subgraph g%d[\"%s\"]\n", at, mermaidText.Replace(g.of))
		}
		ids := map[string]string{}
		node := func(name string) string {
			if ids[name] == "" {
				ids[name] = fmt.Sprintf("c%d", nodes)
				nodes++
				fmt.Fprintf(&b, "  %s[\"%s\"]\n", ids[name], mermaidText.Replace(name))
			}
			return ids[name]
		}
		for _, r := range g.relations {
			from, to := node(r.On), node(r.Container)
			if r.Option == "stop-when" {
				fmt.Fprintf(&b, "  %s -. \"%s\" .-> %s\n", from, mermaidText.Replace(label(r)), to)
				continue
			}
			fmt.Fprintf(&b, "  %s -- \"%s\" --> %s\n", from, mermaidText.Replace(label(r)), to)
		}
		if len(graphs) > 1 {
			b.WriteString("  end\n")
		}
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
