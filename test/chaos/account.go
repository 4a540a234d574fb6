// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readers is how many logs are read at once.
const readers = 2

// A side is what the users of the namespaces saw that opted in, or of the other one.
type side struct {
	objects, dryRuns int
	// refused are requests of users that name us, lookups those for lookups by tag, and
	// unanswered all others that failed.
	refused, lookups, unanswered int
	// retried are the pods of controllers that were refused, which try again.
	retried   int
	unwrapped int
	runs      int // TaskRuns that failed
	lost      int // pods that were accepted, and failed or never ran
	late      int
	longest   time.Duration // until a container ran
	// missing are lines without account, marked those that the reader is told are missing.
	missing, marked int
	// healed is how long it took until all worked, negative if it never did.
	healed   time.Duration
	examples []string // of what went wrong
}

// account counts what became of the load, since there were so many refusals.
func (e *environment) account(ctx context.Context, l *load, before map[types.UID]int, r *row) error {
	for _, a := range l.attempts {
		r.side(a.place).count(a)
	}
	for p, namespace := range e.spaces {
		events, err := e.refusedPods(ctx, namespace)
		if err != nil {
			return err
		}
		for uid, count := range events {
			r.side(place(p)).retried += max(0, count-before[uid])
		}
	}
	return e.countLines(ctx, l, &r.optedIn)
}

// refusals are how many pods of controllers were refused so far, by the UIDs of events.
func (e *environment) refusals(ctx context.Context) (map[types.UID]int, error) {
	counts := map[types.UID]int{}
	for _, namespace := range e.spaces {
		events, err := e.refusedPods(ctx, namespace)
		if err != nil {
			return nil, err
		}
		maps.Copy(counts, events)
	}
	return counts, nil
}

func (e *environment) refusedPods(ctx context.Context, namespace string) (map[types.UID]int, error) {
	events, err := e.cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
	if err != nil {
		return nil, fmt.Errorf("counting the pods that were refused: %w", err)
	}
	counts := map[types.UID]int{}
	for _, event := range events.Items {
		if mentionsUs(event.Message) {
			counts[event.UID] = max(1, int(event.Count))
		}
	}
	return counts, nil
}

// mentionsUs says whether a message is about us: it names a webhook or a policy.
func mentionsUs(message string) bool { return strings.Contains(message, "entrypointer.dev") }

// count adds an attempt.
func (s *side) count(a *attempt) {
	if a.kind.isDry() {
		s.dryRuns++
	} else {
		s.objects++
	}
	if a.optedIn() && a.unwrapped {
		s.unwrapped++
	}
	started := a.started
	if a.kind == aScaleUp && a.refusal == "" {
		started = a.took
	}
	bad := ""
	switch {
	case a.refusal != "" && a.pod == "":
		switch bad = a.refusal; {
		case !mentionsUs(bad):
			s.unanswered++
		case a.kind == aTag:
			s.lookups++
		default:
			s.refused++
		}
	case a.kind.isDry():
	case a.kind == aTaskRun && a.failure != "":
		s.runs++
		bad = a.failure
	case !a.done && !a.kind.isAnswered():
		s.lost++
		bad = "it never ran to its end: " + a.failure
	case started > late:
		s.late++
	}
	s.longest = max(s.longest, started)
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
		if !a.optedIn() || !a.wrapped || a.started == 0 || !a.done {
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

// incomplete is the exit code of the plugin if it knows that output may be missing.
const incomplete = 3

// missingLines reads the output of a pod, and returns how many lines it lacks, and whether
// the reader is told.
func (e *environment) missingLines(ctx context.Context, a *attempt) (missing int, told bool, err error) {
	command := e.plugin.Logs(ctx, "-n", e.spaces[a.place], "pod/"+a.pod)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == incomplete {
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
