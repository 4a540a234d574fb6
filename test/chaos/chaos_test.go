// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
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
func goodOne(k kind, at place, seconds int) *attempt {
	return &attempt{
		kind: k, name: fmt.Sprint(k, seconds), place: at, at: began.Add(time.Duration(seconds) * time.Second), asked: true, pod: "p",
		wrapped: at != plain, unwrapped: at == plain, started: time.Second, done: true, gone: true,
	}
}

// steady are good attempts of each kind, one each second: in the namespaces that opted in by
// turns, and in the other one.
func steady(seconds int) *load {
	l := &load{}
	for i := range seconds {
		for _, k := range kinds {
			l.attempts = append(l.attempts, goodOne(k, place(i%2), i), goodOne(k, plain, i))
		}
	}
	return l
}

func TestAFaultThatNobodyNoticesIsHealedAtOnce(t *testing.T) {
	for _, optedIn := range []bool{true, false} {
		since, ok := steady(inARow).recovered(began, optedIn)
		require.True(t, ok)
		require.Equal(t, began, since)
	}
}

func TestAFaultIsHealedOnceEachKindWorksInARow(t *testing.T) {
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
			if k.isAnswered() && (name == "failed" || strings.HasPrefix(name, "not started") || name == "started and never done") {
				continue // its pod isn't looked at
			}
			for _, optedIn := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s opted in %v", k, name, optedIn), func(t *testing.T) {
					bad := func(l *load) {
						for _, a := range l.attempts {
							if a.kind == k && a.optedIn() == optedIn && a.at.Equal(began.Add(2*time.Second)) {
								spoil(a)
							}
						}
					}
					l := steady(2 + inARow)
					bad(l)
					_, ok := l.recovered(began, optedIn)
					require.False(t, ok, "too few good ones follow")
					since, ok := l.recovered(began, !optedIn)
					require.True(t, ok, "the other side is another matter")
					require.Equal(t, began, since)
					l = steady(3 + inARow)
					bad(l)
					since, ok = l.recovered(began, optedIn)
					require.True(t, ok)
					require.Equal(t, began.Add(3*time.Second), since)
				})
			}
		}
	}
}

// On a busy machine, everything may be late.
func TestWhatIsLateOutsideAsWellIsNotOfOurMaking(t *testing.T) {
	l := steady(2 + inARow)
	at := func(p place) *attempt {
		for _, a := range l.attempts {
			if a.kind == aJob && a.place == p && a.at.Equal(began.Add(2*time.Second)) {
				return a
			}
		}
		return nil
	}
	at(asking).started, at(plain).started = late+2*time.Second, late+time.Second
	since, ok := l.recovered(began, true)
	require.True(t, ok)
	require.Equal(t, began, since)
	_, ok = l.recovered(began, false)
	require.False(t, ok)
	at(asking).refusal, at(asking).pod = "no", ""
	_, ok = l.recovered(began, true)
	require.False(t, ok, "a refusal isn't late")
}

func TestWhatIsOpenIsWaitedFor(t *testing.T) {
	l := steady(1 + inARow)
	fresh := l.attempts[0]
	fresh.at, fresh.started, fresh.done = time.Now(), 0, false
	_, ok := l.recovered(began, true)
	require.False(t, ok)
	require.Equal(t, 1, l.open())
}

func TestAServiceIsAskedByOneUserAtATimeAndOnlyWithoutAPod(t *testing.T) {
	one := &service{place: all, idle: true}
	s := &services{all: []*service{{place: plain, idle: true}, one}}
	require.Nil(t, s.take(asking))
	require.Same(t, one, s.take(all))
	require.Nil(t, s.take(all), "somebody waits for its answer")
	require.True(t, one.asked)
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
	for kind, refusal := range map[kind]string{
		aPod:     `failed calling webhook "pods.entrypointer.dev": connection refused`,
		aDryRun:  "dial tcp 10.250.0.1:6443: connection refused",
		aTag:     `admission webhook "pods.entrypointer.dev" denied the request: Timeout`,
		aDigest:  `admission webhook "pods.entrypointer.dev" denied the request: Timeout`,
		aScaleUp: "502 Bad Gateway",
	} {
		a := goodOne(kind, asking, 0)
		a.pod, a.refusal = "", refusal
		s.count(a, nil)
	}
	require.Len(t, s.examples, 5)
	require.Equal(t, side{objects: 2, dryRuns: 3, refused: 2, byDigest: 1, lookups: 1, unanswered: 2, longest: time.Second, examples: s.examples}, s)
}

func TestARefusalIsDueWhenAnInjectorIsKilled(t *testing.T) {
	const refusal = `failed calling webhook "pods.entrypointer.dev": connection refused`
	var s side
	for name, test := range map[string]struct {
		kind      kind
		at, kills int // seconds
		took      time.Duration
		want      side
	}{
		"under way at that moment": {aPod, 0, 5, 6 * time.Second, side{objects: 1, refused: 1, cut: 1}},
		"answered before":          {aPod, 0, 5, 4 * time.Second, side{objects: 1, refused: 1}},
		"right after it":           {aTag, 7, 5, time.Second, side{dryRuns: 1, lookups: 1, cutLookups: 1}},
		"later":                    {aTag, 9, 5, time.Second, side{dryRuns: 1, lookups: 1}},
	} {
		a := goodOne(test.kind, asking, test.at)
		a.pod, a.refusal, a.started, a.took = "", refusal, 0, test.took
		s = side{}
		s.count(a, []time.Time{began.Add(time.Duration(test.kills) * time.Second)})
		s.examples = nil
		require.Equal(t, test.want, s, name)
		r := row{faults: []fault{{name: "injectors-one-by-one", cut: true}}, optedIn: s}
		require.Equal(t, s.cut+s.cutLookups == 0, len(r.problems()) > 0, name)
	}
}

func TestALookupByDigestIsDueWhereNoReplicaCanReadPullSecrets(t *testing.T) {
	for _, test := range []struct {
		fault    fault
		problems int
	}{{fault{name: "etcd-killed", everybody: true}, 0}, {fault{name: "api-server-killed", everybody: true}, 0}, {fault{name: "kubelet-killed", everybody: true}, 1}, {fault{name: "lookups-stalled", lookups: true}, 1}} {
		a := goodOne(aDigest, asking, 7)
		a.pod, a.refusal, a.started = "", `admission webhook "pods.entrypointer.dev" denied the request: Timeout`, 0
		r := row{faults: []fault{test.fault}}
		r.optedIn.count(a, nil)
		judgeDigests(&r)
		require.Len(t, r.problems(), test.problems, test.fault.name)
		require.Equal(t, 1, r.optedIn.lookups+r.optedIn.refused)
	}
}

func TestAScaleUpIsLateByItsAnswer(t *testing.T) {
	var s side
	a := goodOne(aScaleUp, all, 0)
	a.took, a.started = late+time.Second, 0
	s.count(a, nil)
	require.Equal(t, side{objects: 1, late: 1, longest: late + time.Second}, s)
}

func TestWhatIsDueIsNoProblemAndElseItIs(t *testing.T) {
	bad := row{optedIn: side{refused: 1, lookups: 1, unwrapped: 1, runs: 1}}
	bad.faults = []fault{{name: "quiet"}}
	require.Len(t, bad.problems(), 4)
	bad.faults = []fault{{name: "quiet"}, {name: "loud", refusals: true, unwrapped: true}}
	require.Empty(t, bad.problems(), "in a pair, what is due by one of the faults is due")
	for _, r := range []row{
		{optedIn: side{missing: 1}},
		{others: side{refused: 1}},
		{others: side{runs: 1}},
		{optedIn: side{lost: 1}},
		{optedIn: side{healed: -1}},
		{others: side{healed: -1}},
		{optedIn: side{healed: 2*goal + time.Second}, others: side{healed: goal}},
	} {
		r.faults = bad.faults
		require.Len(t, r.problems(), 1)
		require.Error(t, verdict([]row{r}))
	}
	slow := row{optedIn: side{healed: 2 * goal}, others: side{healed: goal}}
	require.Empty(t, slow.problems(), "outside, it took as long")
	byTag := row{faults: []fault{{name: "registry", lookups: true}}, optedIn: side{lookups: 1}}
	require.Empty(t, byTag.problems())
	byTag.optedIn.refused = 1
	require.Len(t, byTag.problems(), 1, "other pods don't need the registry")
}

func TestTaskRunsThatFailAreNeverDueWhereTheAPIServerWrapsThem(t *testing.T) {
	r := row{faults: []fault{{name: "gone", refusals: true, taskRuns: true}}, optedIn: side{refused: 1, byPolicy: 1}}
	require.Empty(t, r.problems())
	r.optedIn.runs = 1
	require.Len(t, r.problems(), 1)
	r.optedIn = side{}
	require.Len(t, r.problems(), 1, "no TaskRun has shown that they run")
	a := goodOne(aTaskRun, asking, 0)
	a.see(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pod.StatusAnnotation: pod.InjectedByPolicy}}})
	r.optedIn.count(a, nil)
	require.Empty(t, r.problems())
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
		require.NotEqual(t, d[0].part(), d[1].part(), "two faults of one part may exclude each other")
		require.NotEqual(t, "none", d[0].name)
	}
}

func TestTheShortFormHasEachFaultInItsTurn(t *testing.T) {
	count := map[string]int{}
	for seed := range faults {
		o, err := parse([]string{"-short", "-seed", fmt.Sprint(seed)})
		require.NoError(t, err)
		require.Len(t, o.faults, 2)
		require.NotEqual(t, o.faults[0].name, o.faults[1].name)
		for _, f := range o.faults {
			require.False(t, f.long)
			count[f.name]++
		}
	}
	for _, f := range faults {
		require.Equal(t, !f.long && f.inject != nil, count[f.name] > 0, f.name)
	}
	o, err := parse([]string{"-short", "-seed", "0x84b90e44"})
	require.NoError(t, err, "a commit is a seed")
	require.Len(t, o.faults, 2)
	_, err = parse([]string{"-faults", "none,sunspots"})
	require.ErrorContains(t, err, `"sunspots"`)
}

func TestATableIsMadeByTwoRuns(t *testing.T) {
	none, killed := row{faults: faults[:1], began: began}, row{faults: faults[1:2], began: began, optedIn: side{healed: time.Second}}
	again := killed
	again.began = began.AddDate(0, 0, 1)
	first := merge("", []row{killed})
	require.Contains(t, first, killed.line())
	require.Contains(t, first, "\nNot run: `none`, `injectors-gone`, ")
	second := merge(first, []row{again, none})
	require.Equal(t, merge("", []row{none, again}), second, "in the order of the faults")
	require.Contains(t, second, "| 2020-11-29, ")
	several := again
	several.workers = 2
	require.Contains(t, merge(second, []row{several}), ", 2 workers, ")
	pair := row{faults: faults[:2], began: began}
	third := merge(second, []row{pair})
	require.Contains(t, third, none.line()+again.line()+pair.line(), "a pair is another row")
	require.NotContains(t, merge("| fault | former |\n| --- | --- |\n| `none` | 1 |\n", nil), "| 1 |", "columns that aren't there any more")
}

func TestEachFaultHasADrill(t *testing.T) {
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(top, "docs", "operations.md"))
	require.NoError(t, err)
	_, drills, found := strings.Cut(string(page), "\n## Drills\n")
	require.True(t, found)
	drills, _, _ = strings.Cut(drills, "\n## ")
	for _, f := range faults {
		if f.inject != nil {
			require.Contains(t, drills, "`"+f.name+"`")
		}
	}
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
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorContains(t, signalContainers(soon, []corev1.Pod{p}, "sleep", unix.SIGKILL), "no process of this machine")
	require.NoError(t, unix.Kill(pid, 0), "it runs")
	require.NoError(t, sendSignal(pid, unix.SIGKILL, func(argv []string, _ string) bool { return argv[0] == "sleep" }))
	require.Error(t, command.Wait())
}

func TestAPodTellsWhatBecameOfIt(t *testing.T) {
	a := &attempt{kind: aPod, place: all, at: began, asked: true}
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
