// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A Reason says in one word why a pod is wrapped or not: an outcome of package pod, or one
// of the reasons below, which only a look from outside can tell.
type Reason string

// The reasons that aren't outcomes of package pod.
const (
	// NamespaceNotOptedIn means that the namespace has no annotation.
	NamespaceNotOptedIn Reason = "NamespaceNotOptedIn"
	// NamespaceExcluded means that the namespace can't opt in.
	NamespaceExcluded Reason = "NamespaceExcluded"
	// LabelMissing means that the namespace has the annotation, but not yet the label.
	LabelMissing Reason = "LabelMissing"
	// DoesNotAsk means that the namespace opted in, and that the pod has no owner that is
	// wrapped without asking, and doesn't ask.
	DoesNotAsk Reason = "DoesNotAsk"
	// OlderThanOptIn means that the pod was created before its namespace opted in.
	OlderThanOptIn Reason = "OlderThanOptIn"
	// Refused means that the injector refuses the pod.
	Refused Reason = "Refused"
	// InjectorDown means that the API server can't reach the injector.
	InjectorDown Reason = "InjectorDown"
	// RefusedByAnother means that the API server refuses the pod for another reason.
	RefusedByAnother Reason = "RefusedByAnother"
	// Unexplained means that the pod has no status, and that the namespace can't be read.
	Unexplained Reason = "Unexplained"
)

// A meaning is what a reason says of a pod, and what to do about it.
type meaning struct {
	reason Reason
	// is says of the pod what the reason means: "isn't wrapped: ...".
	is string
	// do says what to do, "" for nothing.
	do string
}

// podTemplate is what most answers advise to change; a bare pod has none.
const podTemplate = "the pod template"

// meanings are all answers. docs/cli.md has them as a table, which go test -update writes.
var meanings = []meaning{
	{Reason(pod.Injected), "is wrapped", ""},
	{Reason(pod.PartlyInjected), "is wrapped but for containers whose images can't be looked up, which the operator lets run unwrapped", "set `command:` in these containers, or make the lookup work"},
	{NamespaceNotOptedIn, "isn't wrapped: its namespace doesn't opt in by the annotation entrypointer.dev/inject", "annotate the namespace with `true` or `all`"},
	{NamespaceExcluded, "isn't wrapped: the namespaces kube-system and entrypointer-system can't opt in", ""},
	{LabelMissing, "isn't wrapped yet: its namespace has the annotation entrypointer.dev/inject, but the injector hasn't set the label that follows it", "look at the events of the namespace; the injector may be down"},
	{DoesNotAsk, "isn't wrapped: it doesn't ask by the annotation entrypointer.dev/inject: \"true\", as all pods have to but those of TaskRuns and Revisions", "annotate " + podTemplate + ", or the namespace with `all`"},
	{OlderThanOptIn, "isn't wrapped: it was created before its namespace opted in", "have its controller create it anew"},
	{Reason(pod.NotOurs), "isn't wrapped: it has annotations or labels of entrypointer, and doesn't ask by entrypointer.dev/inject: \"true\"", "annotate " + podTemplate + ", or the namespace with `all`"},
	{Reason(pod.OptedOut), "isn't wrapped: its annotation entrypointer.dev/inject is \"false\"", "remove the annotation from " + podTemplate},
	{Reason(pod.NotSelected), "isn't wrapped: the operator leaves out pods of its kind (pod-owners)", "ask the operator"},
	{Reason(pod.NothingToWrap), "isn't wrapped: entrypointer leaves all of its containers alone", "in a pod that asks by annotation, name them in entrypointer.dev/containers"},
	{Reason(pod.LookupWaived), "isn't wrapped: none of its images can be looked up, and the operator lets such pods run unwrapped", "set `command:` in its containers, or make the lookup work"},
	{Reason(pod.Windows), "isn't wrapped: it can run on Windows only", ""},
	{Reason(pod.MirrorPod), "isn't wrapped: the kubelet runs it from a file, whatever admission decides", ""},
	{Refused, "is refused by entrypointer", "follow the message"},
	{InjectorDown, "is refused: the API server can't reach the injector", "have the operator look at the pods of the injector's namespace"},
	{RefusedByAnother, "is refused by the API server, and not by entrypointer", "follow the message"},
	{Unexplained, "isn't wrapped, and you may not read its namespace, which may say why", "ask for the right to get the namespace"},
}

// meaningOf returns the meaning of a reason.
func meaningOf(r Reason) meaning {
	for _, m := range meanings {
		if m.reason == r {
			return m
		}
	}
	return meaning{r, "has the status " + string(r) + ", which a newer release writes", "use its version of this plugin"}
}

func (r Reason) isWrapped() bool { return r == Reason(pod.Injected) }

// isUnwrapped reports whether a pod would be admitted unwrapped, as opposed to refused.
func (r Reason) isUnwrapped() bool {
	return !r.isWrapped() && !slices.Contains([]Reason{Refused, InjectorDown, RefusedByAnother, LabelMissing, Unexplained}, r)
}

// Meanings returns each reason with what it says of a pod.
func Meanings() iter.Seq2[Reason, string] {
	return func(yield func(Reason, string) bool) {
		for _, m := range meanings {
			if !yield(m.reason, m.is) {
				return
			}
		}
	}
}

// Table returns the reasons as a table of Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| reason | the pod | what to do |\n| --- | --- | --- |\n")
	for _, m := range meanings {
		do := m.do
		if do == "" {
			do = "nothing"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.reason, m.is, do)
	}
	return b.String()
}
