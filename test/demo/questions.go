// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A question is one that the plugin of kubectl is asked about the examples.
type question struct {
	args     []string // of kubectl entrypointer
	expected string   // a part of the answer
	want     int      // the exit code
	answer   string
	code     int
}

func newQuestions() []*question {
	const deployment = "deployment/clock"
	return []*question{
		{args: []string{"why", "-n", optedIn, deployment}, expected: "A pod that is created now is wrapped.", want: 0},
		{args: []string{"why", "-n", plain, deployment}, expected: "isn't wrapped: its namespace doesn't opt in", want: 79},
		{args: []string{"status", "-n", optedIn, deployment}, expected: "  clock  running", want: 0},
		{args: []string{"timeline", "-n", optedIn, "taskrun/steps"}, expected: "hand-offs, from the end of what was waited for", want: 0},
		{args: []string{"check", "-n", optedIn}, expected: "ok       the API server reaches the webhook", want: 0},
	}
}

// askQuestions asks them, once the examples run.
func askQuestions(ctx context.Context) ([]*question, error) {
	directory, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	plugin, err := framework.BuildPlugin(ctx, directory)
	if err != nil {
		return nil, err
	}
	all := newQuestions()
	for _, q := range all {
		if err := q.ask(ctx, plugin); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (q *question) ask(ctx context.Context, plugin framework.Plugin) error {
	out, err := plugin.Command(ctx, q.args...).CombinedOutput()
	q.answer = string(out)
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		q.code, err = failed.ExitCode(), nil
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", q.command(), err)
	}
	return nil
}

func (q *question) command() string { return "kubectl entrypointer " + strings.Join(q.args, " ") }

func (q *question) claims() []claim {
	return []claim{{
		holds: strings.Contains(q.answer, q.expected),
		text:  fmt.Sprintf("it says %q", strings.TrimSpace(q.expected)),
		but:   fmt.Sprintf("it says %q", q.answer),
	}, {
		holds: q.code == q.want,
		text:  fmt.Sprintf("its exit code is %d", q.want),
		but:   fmt.Sprintf("it is %d", q.code),
	}}
}

// showQuestions prints the questions with their answers, and returns how many claims there
// were and how many don't hold.
func showQuestions(out *terminal, questions []*question) (claimed, failed int) {
	out.heading("Questions", "docs/cli.md")
	for _, q := range questions {
		claims := q.claims()
		failed += out.answer(q.command(), q.answer, claims)
		claimed += len(claims)
	}
	return claimed, failed
}
