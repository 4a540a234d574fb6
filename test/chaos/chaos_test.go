// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

var began = time.Date(2020, 11, 28, 12, 0, 0, 0, time.UTC)

// goodOne is an attempt of a kind that its user is content with, so many seconds after the
// fault.
func goodOne(k kind, optedIn bool, seconds int) *attempt {
	return &attempt{
		kind: k, optedIn: optedIn, at: began.Add(time.Duration(seconds) * time.Second), asked: true, pod: "p",
		wrapped: optedIn, unwrapped: !optedIn, started: time.Second, done: true, gone: true,
	}
}

// steady are good attempts of each kind in both namespaces, one each second.
func steady(seconds int) *load {
	l := &load{}
	for i := range seconds {
		for _, k := range kinds {
			l.attempts = append(l.attempts, goodOne(k, true, i), goodOne(k, false, i))
		}
	}
	return l
}

func TestAFaultThatNobodyNoticesIsHealedAtOnce(t *testing.T) {
	since, ok := steady(inARow).recovered(began)
	require.True(t, ok)
	require.Equal(t, began, since)
}

func TestAFaultIsHealedOnceEachKindWorksInARowInBothNamespaces(t *testing.T) {
	for name, spoil := range map[string]func(*attempt){
		"refused":                func(a *attempt) { a.refusal, a.pod = "no", "" },
		"not as it must be":      func(a *attempt) { a.wrapped, a.unwrapped = a.unwrapped, a.wrapped },
		"failed":                 func(a *attempt) { a.failure = "it failed" },
		"not started for long":   func(a *attempt) { a.started, a.done = 0, false },
		"started late":           func(a *attempt) { a.started, a.took = late+time.Second, late+time.Second },
		"not answered for long":  func(a *attempt) { a.asked = false },
		"started and never done": func(a *attempt) { a.done = false },
	} {
		for _, k := range kinds {
			if k == aDryRun && (name == "failed" || strings.HasPrefix(name, "not started") || name == "started and never done") {
				continue // it starts nothing
			}
			for _, optedIn := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s opted in %v", k, name, optedIn), func(t *testing.T) {
					bad := func(l *load) {
						for _, a := range l.attempts {
							if a.kind == k && a.optedIn == optedIn && a.at.Equal(began.Add(2*time.Second)) {
								spoil(a)
							}
						}
					}
					l := steady(2 + inARow)
					bad(l)
					_, ok := l.recovered(began)
					require.False(t, ok, "too few good ones follow")
					l = steady(3 + inARow)
					bad(l)
					since, ok := l.recovered(began)
					require.True(t, ok)
					require.Equal(t, began.Add(3*time.Second), since)
				})
			}
		}
	}
}

func TestWhatIsOpenIsWaitedFor(t *testing.T) {
	l := steady(1 + inARow)
	fresh := l.attempts[0]
	fresh.at, fresh.started, fresh.done = time.Now(), 0, false
	_, ok := l.recovered(began)
	require.False(t, ok)
	require.Equal(t, 1, l.open())
}

func TestMissingLinesAreCountedAndMarksSeen(t *testing.T) {
	var all strings.Builder
	for i := range lines {
		fmt.Fprintf(&all, "%d of job-7\n", i+1)
	}
	missing, marked := linesOf("job-7", all.String())
	require.Zero(t, missing)
	require.False(t, marked)
	missing, marked = linesOf("job-7", strings.Replace(all.String(), "\n3 of job-7\n4 of job-7\n", "\n", 1))
	require.Equal(t, 2, missing)
	require.False(t, marked)
	missing, marked = linesOf("job-7", strings.Replace(all.String(), "\n3 of job-7\n", "\n[entrypointer: 11 bytes were dropped]\n", 1))
	require.Equal(t, 1, missing)
	require.True(t, marked)
}

func TestRefusalsCountByWhoRefused(t *testing.T) {
	var s side
	a := goodOne(aPod, true, 0)
	a.pod, a.refusal = "", `failed calling webhook "pods.entrypointer.dev": connection refused`
	s.count(a)
	b := goodOne(aDryRun, true, 0)
	b.pod, b.refusal = "", "dial tcp 10.250.0.1:6443: connection refused"
	s.count(b)
	require.Equal(t, side{objects: 1, dryRuns: 1, refused: 1, unanswered: 1, longest: time.Second, examples: s.examples, unwrapped: 0}, s)
	require.Len(t, s.examples, 2)
}

func TestWhatIsDueIsNoProblemAndElseItIs(t *testing.T) {
	bad := row{optedIn: side{refused: 1, unwrapped: 1, runs: 1}}
	bad.faults = []fault{{name: "quiet"}}
	require.Len(t, bad.problems(), 3)
	bad.faults = []fault{{name: "quiet"}, {name: "loud", refusals: true, unwrapped: true}}
	require.Empty(t, bad.problems(), "in a pair, what is due by one of the faults is due")
	for _, r := range []row{
		{optedIn: side{missing: 1}},
		{others: side{refused: 1}},
		{others: side{runs: 1}},
		{optedIn: side{lost: 1}},
		{healed: -1},
		{healed: goal + time.Second},
	} {
		r.faults = bad.faults
		require.Len(t, r.problems(), 1)
		require.Error(t, verdict([]row{r}))
	}
}

func TestTheSeedChoosesThePairs(t *testing.T) {
	of := func(seed uint64) (all []string) {
		for _, d := range drills(options{faults: faults, pairs: 20, seed: seed}) {
			all = append(all, names(d))
		}
		return all
	}
	first := of(1)
	require.Equal(t, first, of(1))
	require.NotEqual(t, of(1), of(2))
	require.Len(t, of(1), len(faults)+20)
	for _, d := range drills(options{faults: faults, pairs: 200, seed: 3})[len(faults):] {
		require.Len(t, d, 2)
		require.NotEqual(t, d[0].name, d[1].name)
		require.NotEqual(t, "none", d[0].name)
	}
}

func TestTheShortFormHasFaultsThatExist(t *testing.T) {
	o, err := parse([]string{"-short"})
	require.NoError(t, err)
	require.Len(t, o.faults, 3)
	_, err = parse([]string{"-faults", "none,sunspots"})
	require.ErrorContains(t, err, `"sunspots"`)
}

func TestATableIsMadeByTwoRuns(t *testing.T) {
	a, b := row{faults: []fault{{name: "a"}}, healed: time.Second}, row{faults: []fault{{name: "b"}}, healed: 2 * time.Second}
	again := row{faults: []fault{{name: "a"}}, healed: 3 * time.Second}
	first := merge("", []row{a})
	require.Equal(t, render([]row{a}), first)
	require.Equal(t, render([]row{again, b}), merge(first, []row{b, again}))
	pair := row{faults: []fault{{name: "a"}, {name: "b"}}}
	require.Equal(t, render([]row{a, pair}), merge(first, []row{pair}), "a pair is another row")
}

func TestThePageHasTheFaults(t *testing.T) {
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	section, err := markdown.Section(filepath.Join(top, framework.Chaos), "faults")
	require.NoError(t, err)
	require.Equal(t, renderFaults(), section, "make chaos ARGS=-update writes it")
}

func TestAProcessThatIsAnotherOneGetsNoSignal(t *testing.T) {
	command := exec.Command("sleep", "100")
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	pid := command.Process.Pid
	err := sendSignal(pid, unix.SIGKILL, func(argv []string, _ string) bool { return argv[0] == "etcd" })
	require.ErrorContains(t, err, "it is another one")
	require.NoError(t, unix.Kill(pid, 0), "it runs")
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "injector-1", UID: types.UID("7e2d6a5e-not-the-pod-of-a-process")}}
	require.ErrorContains(t, killContainers([]corev1.Pod{p}, "sleep"), "no process of this machine")
	require.NoError(t, unix.Kill(pid, 0), "it runs")
	require.NoError(t, sendSignal(pid, unix.SIGKILL, func(argv []string, _ string) bool { return argv[0] == "sleep" }))
	require.Error(t, command.Wait())
}

func TestAPodTellsWhatBecameOfIt(t *testing.T) {
	a := &attempt{kind: aPod, optedIn: true, at: began, asked: true}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: []string{pod.EntrypointPath}}}},
	}
	a.see(p)
	require.True(t, a.wrapped)
	require.Zero(t, a.started)
	p.Status.Phase = corev1.PodSucceeded
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(began.Add(3 * time.Second))},
	}}}
	a.see(p)
	require.Equal(t, 3*time.Second, a.started)
	require.True(t, a.good())
	p.Spec.Containers[0].Command = []string{"sh"}
	a.see(p)
	require.False(t, a.good(), "it was seen unwrapped")
}
