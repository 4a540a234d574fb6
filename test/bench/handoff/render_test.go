// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// ran is a TaskRun whose first step begins after start, and whose others so
// long after the one before; it is done a second after the last.
func ran(start, handOff time.Duration, length int) taskRun {
	const takes = 100 * time.Millisecond
	created := time.Unix(1e9, 0)
	at := created.Add(start)
	r := taskRun{created: created}
	for range length {
		r.steps = append(r.steps, span{at, at.Add(takes)})
		at = at.Add(takes + handOff)
	}
	r.done = r.steps[length-1].ended.Add(time.Second)
	return r
}

func TestTheREADMETellsTheDirectionOfEachRatio(t *testing.T) {
	table := render(figures{idle: 30 * time.Second, sides: []*side{
		sideOf("alone", time.Second, time.Second), sideOf("wrapped", 1500*time.Millisecond, 40*time.Millisecond), sideOf("mounted", time.Second, 50*time.Millisecond),
	}})
	require.Equal(t, "- From the end of a step to the start of the next, on average: 1000.0 ms by Tekton alone, **40.0 ms** with entrypointer, 25 times as fast. "+
		"With `delivery: image-volume`: 50.0 ms, 20 times as fast.\n"+
		"- A whole TaskRun of 8 steps of 50 to 240 ms: 10.80 s by Tekton alone, **5.08 s** with entrypointer, 2.19 times as fast (1.29 to 3.71). "+
		"With `delivery: image-volume`: 4.15 s, 2.65 times as fast (1.81 to 3.88).\n"+
		"- A whole TaskRun of 2 steps of 50 to 240 ms: 4.20 s by Tekton alone, **4.24 s** with entrypointer, 1.02 times as fast (0.74 to 1.40). "+
		"With `delivery: image-volume`: 3.25 s, 1.31 times as fast (1.08 to 1.58).\n", telling(table))
}

// The README tells what the table of the benchmarks' page says.
func TestTheREADMETellsTheTableOfTheBenchmarks(t *testing.T) {
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	table, err := markdown.Section(filepath.Join(top, framework.Benchmarks), "handoff")
	require.NoError(t, err)
	told, err := markdown.Section(filepath.Join(top, framework.README), "handoff")
	require.NoError(t, err)
	require.Equal(t, telling(table), told)
}

func sideOf(name string, start, handOff time.Duration, waiting ...framework.Usage) *side {
	s := &side{name: name, runs: map[shape][]taskRun{}, waiting: waiting}
	for _, shape := range shapes {
		s.runs[shape] = []taskRun{ran(start, handOff, shape.steps), ran(3*start, handOff, shape.steps), ran(2*start, handOff, shape.steps)}
	}
	return s
}

func TestTheTableComparesTheSides(t *testing.T) {
	plain, wrapped := framework.Usage{CPU: 20 * time.Millisecond, RSS: 30e6}, framework.Usage{CPU: time.Millisecond, RSS: 2e6}
	table, about, _ := strings.Cut(render(figures{idle: 30 * time.Second, sides: []*side{
		sideOf("alone", time.Second, time.Second, plain, plain),
		sideOf("wrapped", 1500*time.Millisecond, 40*time.Millisecond, wrapped, wrapped),
		sideOf("mounted", time.Second, 50*time.Millisecond),
	}}), "\n\n")
	require.Equal(t, []string{
		"| | alone | wrapped | | mounted | |",
		"| --- | ---: | ---: | ---: | ---: | ---: |",
		"| from the end of a step to the start of the next, on average | 1000.0 ms | 40.0 ms | 25× | 50.0 ms | 20× |",
		"| median | 1000.0 ms | 40.0 ms | 25× | 50.0 ms | 20× |",
		"| p99 | 1000.0 ms | 40.0 ms | 25× | 50.0 ms | 20× |",
		"| time of a TaskRun without its steps: to start its pod and to complete, on average | 3.00 s | 4.00 s | 0.8× | 3.00 s | 1.0× |",
		"| TaskRun of 1 step, with all that it takes to start a pod | 3.10 s | 4.10 s | 0.76× (0.68 to 0.87) | 3.10 s | 1.00× (1.00 to 1.00) |",
		"| 2 steps of 50 to 240 ms, from the first to the last | 1.20 s | 0.24 s | 5.0× | 0.25 s | 4.8× |",
		"| TaskRun of 2 steps of 50 to 240 ms, with all that it takes to start a pod | 4.20 s | 4.24 s | 1.02× (0.74 to 1.40) | 3.25 s | 1.31× (1.08 to 1.58) |",
		"| 3 steps of 50 to 240 ms, from the first to the last | 2.30 s | 0.38 s | 6.1× | 0.40 s | 5.8× |",
		"| TaskRun of 3 steps of 50 to 240 ms, with all that it takes to start a pod | 5.30 s | 4.38 s | 1.25× (0.82 to 1.89) | 3.40 s | 1.59× (1.20 to 2.10) |",
		"| 8 steps of 50 to 240 ms, from the first to the last | 7.80 s | 1.08 s | 7.2× | 1.15 s | 6.8× |",
		"| TaskRun of 8 steps of 50 to 240 ms, with all that it takes to start a pod | 10.80 s | 5.08 s | 2.19× (1.29 to 3.71) | 4.15 s | 2.65× (1.81 to 3.88) |",
	}, strings.Split(table, "\n")[:13])
	require.Contains(t, table, "\n| TaskRun of 8 steps of 137 ms each, with all")
	require.Contains(t, table, "\n| CPU time of a step that waits for 30s | 20.0 ms | 1.0 ms | 20× |  |  |\n| memory of this step (RSS) | 30.0 MB | 2.0 MB | | | |")
	require.Contains(t, about, "Averages of 3 TaskRuns of each kind, and of 87 hand-offs, on each side")
}

func TestThePlotShowsEachStepWhereItWas(t *testing.T) {
	// Nine seconds are 630 pixels, which begin at 110.
	text := draw(ran(2*time.Second, 1080*time.Millisecond, 6), ran(3*time.Second, 0, 2))
	requireXML(t, text)
	require.Contains(t, text, `Tekton alone: done after 9.0 s`)
	require.Contains(t, text, `with entrypointer: done after 4.2 s`)
	require.Equal(t, 8, strings.Count(text, `class="works" x=`)-1, "besides the one in the legend")
	require.Contains(t, text, `<rect class="works" x="250" y="62" width="7"`)
	require.Contains(t, text, `<rect class="waits" x="257" y="78" width="75.6"`)
}

func requireXML(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestThePlottedTaskRunIsTheOneInTheMiddle(t *testing.T) {
	short, middle, long := ran(0, 0, 1), ran(time.Second, 0, 1), ran(time.Minute, 0, 1)
	require.Equal(t, middle, median([]taskRun{long, short, middle}))
}
