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
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/test/framework"
)

// readers is how many logs are read at once.
const readers = 2

// A side is what the users of the namespaces saw that opted in, or of the other one.
type side struct {
	objects, dryRuns int
	// refused are requests of users that name us, lookups those for lookups by tag, and
	// unanswered all others that failed.
	refused, lookups, unanswered int
	// byDigest are those refused whose image is looked up by its digest, until account has
	// decided what they are.
	byDigest int
	// cut are those refused, and cutLookups those of lookups, when an injector was killed.
	cut, cutLookups int
	// retried are the pods of controllers that were refused, which try again.
	retried   int
	unwrapped int
	runs      int // TaskRuns that failed
	byPolicy  int // those that the API server has wrapped
	lost      int // pods that were accepted, and failed or never ran
	late      int
	longest   time.Duration // until a container ran
	// missing are lines without account, marked those that the reader is told are missing.
	missing, marked int
	// healed is how long it took until all worked, negative if it never did.
	healed   time.Duration
	examples []string // of what went wrong
	lacking  int      // of them, those of output
}

// account counts what became of the load, since there were so many refusals.
func (e *environment) account(ctx context.Context, l *load, before map[types.UID]int, r *row) error {
	for _, a := range l.attempts {
		sideOf(r, a.place).count(a, r.kills)
	}
	judgeDigests(r)
	for p, namespace := range e.spaces {
		events, err := e.refusedPods(ctx, namespace)
		if err != nil {
			return err
		}
		for uid, count := range events {
			sideOf(r, place(p)).retried += max(0, count-before[uid])
		}
	}
	return e.countLines(ctx, l, &r.optedIn)
}

// judgeDigests counts refused pods whose image has a digest as lookups where the API server or etcd
// fails. A replica that has opened the digest since its start knows it. API servers make new
// connections then, to any replica, and no other one can read the pull secrets.
func judgeDigests(r *row) {
	unreadable := r.any(func(f fault) bool { return f.part() == "etcd" || f.part() == "api" })
	for _, s := range []*side{&r.optedIn, &r.others} {
		if unreadable {
			s.refused, s.lookups = s.refused-s.byDigest, s.lookups+s.byDigest
		}
		s.byDigest = 0
	}
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

// dropped is the time until a Service drops an injector that was killed: the kubelet sees its end
// within a second, and kube-proxy its report.
const dropped = 3 * time.Second

// isCut says that the request for an attempt may have been at an injector that was killed.
func (a *attempt) isCut(kills []time.Time) bool {
	return slices.ContainsFunc(kills, func(kill time.Time) bool {
		return a.at.Before(kill.Add(dropped)) && a.at.Add(a.took).After(kill)
	})
}

// mostExamples bounds the examples of each kind of failure.
const mostExamples = 3

// count adds an attempt. Injectors were killed at some moments.
func (s *side) count(a *attempt, kills []time.Time) {
	if a.kind.isDry() {
		s.dryRuns++
	} else {
		s.objects++
	}
	s.countWrapping(a)
	if start := a.start(); start > 0 {
		s.longest = max(s.longest, start)
		if start > late && a.refusal == "" && a.failure == "" {
			s.late++
		}
	}
	if counter, bad := s.counterOf(a); counter != nil {
		*counter++
		switch {
		case !a.isCut(kills):
			if a.kind == aDigest && counter == &s.refused {
				s.byDigest++
			}
		case counter == &s.refused:
			s.cut++
		case counter == &s.lookups:
			s.cutLookups++
		}
		if *counter <= mostExamples {
			s.examples = append(s.examples, fmt.Sprintf("%s %s at %s: %s", a.kind, a.name, a.at.Format(time.TimeOnly), bad))
		}
	}
}

func (s *side) countWrapping(a *attempt) {
	if a.optedIn() && a.unwrapped {
		s.unwrapped++
	}
	if a.byPolicy {
		s.byPolicy++
	}
}

// counterOf returns where an attempt counts that has failed, and why it has.
func (s *side) counterOf(a *attempt) (counter *int, why string) {
	switch {
	case a.refusal != "" && a.pod == "":
		return s.counterOfRefusal(a), a.refusal
	case a.kind.isAnswered():
		return nil, ""
	case a.kind == aTaskRun && a.failure != "":
		return &s.runs, a.failure
	case !a.done:
		return &s.lost, "it never ran to its end: " + a.failure
	default:
		return nil, ""
	}
}

func (s *side) counterOfRefusal(a *attempt) *int {
	switch {
	case !mentionsUs(a.refusal):
		return &s.unanswered
	case a.kind == aTag:
		return &s.lookups
	default:
		return &s.refused
	}
}

// countLines reads the output of what ran at the log service.
func (e *environment) countLines(ctx context.Context, l *load, s *side) error {
	if e.unlogged {
		return nil
	}
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
			if missing > 0 && s.lacking < mostExamples {
				s.lacking++
				s.examples = append(s.examples, fmt.Sprintf("%s %s lacks %d lines; told: %v", a.kind, a.name, missing, told))
			}
			return nil
		})
	}
	return group.Wait()
}

const (
	// incomplete is the exit code of the plugin if it knows that output may be missing.
	incomplete = 3
	// nothingKnown is what it says of a pod that is gone and has never reached the service.
	nothingKnown = "the log service has no logs of "
	// readLimit is for how long reading is tried: the service may have to recover.
	readLimit = time.Minute
)

// missingLines reads the output of a pod, and returns how many lines it lacks, and whether
// the reader is told.
func (e *environment) missingLines(ctx context.Context, a *attempt) (missing int, told bool, err error) {
	err = framework.Eventually(ctx, readLimit, "the output of pod "+a.pod, func(ctx context.Context) error {
		command := e.plugin.Logs(ctx, "-n", e.spaces[a.place], "pod/"+a.pod)
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		err := command.Run()
		exit, failed := errors.AsType[*exec.ExitError](err)
		if err != nil && (!failed || exit.ExitCode() != incomplete) && !strings.Contains(stderr.String(), nothingKnown) {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		missing, told = linesOf(a.name, stdout.String())
		told = told || failed && exit.ExitCode() == incomplete
		return nil
	})
	return missing, told, err
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
