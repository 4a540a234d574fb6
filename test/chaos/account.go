// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readers is how many logs are read at once.
const readers = 2

// A side is what the users of one of the two namespaces saw.
type side struct {
	objects, dryRuns int
	// refused are requests of users that name us, unanswered all others that failed.
	refused, unanswered int
	// retried are the pods of controllers that were refused, which try again.
	retried   int
	unwrapped int
	runs      int // TaskRuns that failed
	lost      int // pods that were accepted, and failed or never ran
	late      int
	longest   time.Duration // until a container ran
	// missing are lines without account, marked those that the reader is told are missing.
	missing, marked int
	examples        []string // of what went wrong
}

// account counts what became of the load.
func (e *environment) account(ctx context.Context, l *load, r *row) error {
	for optedIn, s := range map[bool]*side{true: &r.optedIn, false: &r.others} {
		for _, a := range l.attempts {
			if a.optedIn == optedIn {
				s.count(a)
			}
		}
		events, err := e.cluster.Kube.CoreV1().Events(e.namespace(optedIn)).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err != nil {
			return fmt.Errorf("counting the pods that were refused: %w", err)
		}
		for _, event := range events.Items {
			// A Job or a ReplicaSet of this load.
			if strings.HasPrefix(event.InvolvedObject.Name, l.prefix+"-") && mentionsUs(event.Message) {
				s.retried += max(1, int(event.Count))
			}
		}
	}
	return e.countLines(ctx, l, &r.optedIn)
}

// mentionsUs says whether a message is about us: it names a webhook or a policy.
func mentionsUs(message string) bool { return strings.Contains(message, "entrypointer.dev") }

// count adds an attempt.
func (s *side) count(a *attempt) {
	if a.kind == aDryRun {
		s.dryRuns++
	} else {
		s.objects++
	}
	if a.optedIn && a.unwrapped {
		s.unwrapped++
	}
	bad := ""
	switch {
	case a.refusal != "" && a.pod == "":
		if bad = a.refusal; mentionsUs(bad) {
			s.refused++
		} else {
			s.unanswered++
		}
	case a.kind == aDryRun:
	case a.kind == aTaskRun && a.failure != "":
		s.runs++
		bad = a.failure
	case !a.done:
		s.lost++
		bad = "it never ran to its end: " + a.failure
	case a.started > late:
		s.late++
	}
	s.longest = max(s.longest, a.started)
	if bad != "" && len(s.examples) < 5 {
		s.examples = append(s.examples, fmt.Sprintf("%s %s at %s: %s", a.kind, a.name, a.at.Format(time.TimeOnly), bad))
	}
}

// countLines reads the output of what ran at the log service.
func (e *environment) countLines(ctx context.Context, l *load, s *side) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, a := range l.attempts {
		if !a.optedIn || !a.wrapped || a.started == 0 || !a.done {
			continue
		}
		group.Go(func() error {
			missing, told, err := e.missingLines(ctx, a)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if told {
				s.marked += missing
			} else {
				s.missing += missing
			}
			if missing > 0 && len(s.examples) < 10 {
				s.examples = append(s.examples, fmt.Sprintf("%s %s lacks %d lines; told: %v", a.kind, a.name, missing, told))
			}
			return nil
		})
	}
	return group.Wait()
}

// cutOff is the exit code of the plugin if it knows that output may be missing.
const cutOff = 3

// missingLines reads the output of a pod, and returns how many lines it lacks, and whether
// the reader is told.
func (e *environment) missingLines(ctx context.Context, a *attempt) (missing int, told bool, err error) {
	command := e.plugin.Logs(ctx, "-n", e.namespace(true), "pod/"+a.pod)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == cutOff {
		told, err = true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading the output of pod %q: %w: %s", a.pod, err, bytes.TrimSpace(stderr.Bytes()))
	}
	missing, marked := linesOf(a.name, stdout.String())
	return missing, told || marked, nil
}

// linesOf counts the lines that a text lacks, and says whether it has a mark in place of
// some.
func linesOf(name, text string) (missing int, marked bool) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		seen[line] = true
		marked = marked || strings.HasPrefix(line, "[entrypointer: ")
	}
	for i := range lines {
		if !seen[fmt.Sprintf("%d of %s", i+1, name)] {
			missing++
		}
	}
	return missing, marked
}
