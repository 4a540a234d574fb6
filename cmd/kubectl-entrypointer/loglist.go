// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// listedPods is how many pods are listed by default.
const listedPods = 50

// ofLogs are the flags that say which lines are printed, and how.
var ofLogs = []string{"container", "stream", "follow", "previous", "tail", "prefix", "timestamps", "grep", "ignore-case", "before-context", "after-context", "context-lines", "events", "color"}

// listPods lists the pods that have logs.
func (s *settings) listPods(args []string, command *cobra.Command, from *cluster) error {
	options, err := s.podsOptions(args, command)
	if err != nil {
		return &usageError{err}
	}
	client, err := from.connect()
	if err != nil {
		return err
	}
	pods, err := (&logreader.Client{REST: client.REST, Namespace: client.Namespace}).ListPods(command.Context(), options)
	if err != nil {
		return err
	}
	if s.output != "" && s.output != wide {
		return printDocument(command.OutOrStdout(), s.output, pods)
	}
	if len(pods.Pods) > 0 {
		if err := pods.Print(command.OutOrStdout(), s.output == wide); err != nil {
			return err
		}
	}
	for _, hint := range hints(pods, options) {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), hint)
	}
	return nil
}

func (s *settings) podsOptions(args []string, command *cobra.Command) (o logreader.PodsOptions, err error) {
	for _, name := range ofLogs {
		if command.Flags().Changed(name) {
			return o, fmt.Errorf("--list and --%s are both set: use one of them, because --list prints no logs", name)
		}
	}
	if err := checkOutput(s.output, wide); err != nil {
		return o, err
	}
	if err := s.checkLimit(command, listedPods); err != nil {
		return o, err
	}
	o.Limit = s.limit
	if o.Span, err = s.span(time.Now()); err != nil {
		return o, err
	}
	switch {
	case len(args) > 1 || len(args) == 1 && s.selector != "":
		return o, errors.New("--list takes one object, as TYPE/NAME, or labels by --selector, or none of them for all pods")
	case len(args) == 1:
		o.Target, err = target.Parse(args[0], target.All())
		return o, err
	case s.selector == "":
		return o, nil
	}
	if o.Selector, err = labels.Parse(s.selector); err != nil {
		return o, fmt.Errorf("--selector is %q: use labels such as tekton.dev/taskRun=build: %w", s.selector, err)
	}
	if key, _ := loglabels.Required(o.Selector); key == "" {
		return o, fmt.Errorf("--selector is %q: with --list, use a value of one of the labels that the log service keeps: %s", s.selector, strings.Join(loglabels.OfPods(), ", "))
	}
	return o, nil
}

// hints say what a list doesn't have.
func hints(pods logreader.Pods, o logreader.PodsOptions) (list []string) {
	if len(pods.Pods) == 0 {
		of := "no pod"
		if o.Target.Of != "" {
			of = "no pod of " + o.Target.String()
		}
		when := ""
		if !o.Since.IsZero() {
			when += " since " + o.Since.UTC().Format(time.RFC3339)
		}
		if !o.Until.IsZero() {
			when += " before " + o.Until.UTC().Format(time.RFC3339)
		}
		if when != "" {
			when = " has begun to print" + when + ", and"
		}
		list = append(list, fmt.Sprintf("In namespace %q, %s%s has logs.", pods.Namespace, of, when))
	}
	if pods.Remaining > 0 {
		list = append(list, fmt.Sprintf("There are %d more pods: --limit %d lists them as well, and --since 24h only those of the last day.", pods.Remaining, int64(o.Limit)+pods.Remaining))
	}
	if pods.Incomplete {
		list = append(list, "The namespace has more logs than the log service searches, so pods may be missing: name one, as TYPE/NAME, or labels by --selector.")
	}
	return list
}
