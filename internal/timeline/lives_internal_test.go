// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/podstatus"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// at returns the moment so many milliseconds after noon.
func at(milliseconds int) time.Time { return noon.Add(time.Duration(milliseconds) * time.Millisecond) }

// told returns the spans of a life as text, in milliseconds after noon.
func told(l Life) string {
	l.Spans = tidied(l.Spans, l.began)
	l.nameNeeds()
	var parts []string
	for _, s := range l.Spans {
		text := fmt.Sprintf("%s %d-", s.Kind, s.From.Sub(noon).Milliseconds())
		if !s.open() {
			text += fmt.Sprint(s.To.Sub(noon).Milliseconds())
		}
		for _, more := range []string{s.For, s.Outcome, s.Precision} {
			if more != "" {
				text += " " + more
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func TestEventsBecomeSpans(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		events []string // each with its time in milliseconds, its name and its fields
		needs  []need
		want   string
	}{
		"a wait for several":         {[]string{`1 waiting "dependency":"db:ready"`, `1 waiting "dependency":"init:completed"`, `9 waited "outcome":"met"`, `9 started`}, nil, "waiting 1-9 db:ready, init:completed met; running 9-"},
		"a wait for a URL":           {[]string{`9 waited "outcome":"met"`, `10 started`, `20 exited "exitCode":0`}, []need{{"http://:1/", ""}}, "waiting 0-10 http://:1/ met; running 10-20; ending 20-"},
		"a wait that failed":         {[]string{`1 waiting "dependency":"db:ready"`, `5 waited "outcome":"failed"`, `6 finished "reason":"DependencyFailure","exitCode":123`}, nil, "waiting 1-5 db:ready failed"},
		"a wait for another file":    {[]string{`1 waiting "file":"/work/go"`, `5 waited "outcome":"met"`}, nil, "waiting 1-5 /work/go met"},
		"a second look after a hook": {[]string{`1 waiting "dependency":"db:ready"`, `3 waited "outcome":"met"`, `3 hookStarted "argv0":"prepare"`, `6 hookEnded "exitCode":0`, `6 waiting "dependency":"db:ready"`, `8 waited "outcome":"met"`, `8 started`}, nil, "waiting 1-3 db:ready met; hook 3-6 prepare; waiting 6-8 db:ready met; running 8-"},
		"a pause after a failure":    {[]string{`1 started`, `5 exited "exitCode":1`, `5 paused "at":"after-failure"`, `9 continued`, `12 finished "reason":"Exited","exitCode":1`}, nil, "running 1-5; paused 5-9 after-failure; ending 9-12"},
		"a pause before the start":   {[]string{`1 paused "at":"before-start"`, `9 continued`, `9 started`}, nil, "paused 1-9 before-start; running 9-"},
		"a stop in order":            {[]string{`1 started`, `5 signal "signal":"SIGTERM"`, `5 stopHeld "dependency":"web:exited"`, `8 stopPassed "outcome":"met"`, `9 exited "exitCode":0`}, nil, "running 1-5; stopping 5-9 SIGTERM; ending 9-"},
		"a time limit":               {[]string{`1 started`, `5 timeout`, `9 exited "exitCode":143`}, nil, "running 1-5; stopping 5-9 timeout; ending 9-"},
		"a held command goes on":     {[]string{`1 started`, `2 started`}, nil, "running 1-"},
		"a signal before the start":  {[]string{`1 waiting "dependency":"db:ready"`, `2 signal "signal":"SIGTERM"`, `3 finished "reason":"Stopped","exitCode":143`}, nil, "waiting 1-3 db:ready"},
		"ends without beginnings":    {[]string{`1 hookEnded "exitCode":0`, `2 continued`, `3 exited "exitCode":0`, `4 finished "reason":"Exited"`}, nil, "ending 3-4"},
		"of an unknown start":        {[]string{`5 waited "outcome":"met"`, `6 started`}, nil, "waiting 5-6 met; running 6-"},
		"times that can't be":        {[]string{`-99999999999 started`, `99999999999 started`, `1 started`}, nil, "running 1-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := logreader.Record{Stream: logreader.Stream{Start: map[bool]string{false: noon.Format(time.RFC3339Nano)}[strings.HasPrefix(name, "of an unknown")]}}
			for _, e := range test.events {
				words := strings.SplitN(e+" ", " ", 3)
				milliseconds, err := time.ParseDuration(words[0] + "ms")
				require.NoError(t, err)
				fields := strings.TrimSpace(words[2])
				if fields != "" {
					fields = "," + fields
				}
				record.Lines = append(record.Lines, fmt.Appendf(nil, `{"time":%q,"event":%q%s}`, noon.Add(milliseconds).Format(time.RFC3339Nano), words[1], fields))
			}
			require.Equal(t, test.want, told(recorded(record, prelude{needs: test.needs}, at(1000))))
		})
	}
}

func TestWhatASupervisorSaysBecomesSpans(t *testing.T) {
	t.Parallel()
	began, ended := at(2000), at(9000)
	for name, test := range map[string]struct {
		says   podstatus.Supervisor
		before Kind
		ended  time.Time
		want   string
	}{
		"it waits for its turn":       {podstatus.Supervisor{Phase: "Waiting"}, Waiting, time.Time{}, "waiting 2000- 1s"},
		"it waits for a container":    {podstatus.Supervisor{Phase: "Waiting", WaitingSince: at(2200), WaitingFor: []podstatus.Unmet{{Container: "db", Condition: "ready"}}}, Waiting, time.Time{}, "waiting 2200- db:ready"},
		"it pauses":                   {podstatus.Supervisor{Phase: "Paused", Paused: "before-start"}, Paused, time.Time{}, "paused 2000- 1s"},
		"it pauses after a failure":   {podstatus.Supervisor{Phase: "Paused", Paused: "after-failure", Started: at(2100), Finished: at(5000)}, "", time.Time{}, "running 2100-5000; paused 5000-"},
		"it runs":                     {podstatus.Supervisor{Phase: "Running", Started: at(2100)}, "", time.Time{}, "running 2100-"},
		"it runs after a wait":        {podstatus.Supervisor{Phase: "Running", Started: at(4100)}, Waiting, time.Time{}, "waiting 2000-4100 1s; running 4100-"},
		"it has waited for a moment":  {podstatus.Supervisor{Phase: "Running", Started: at(2900)}, Waiting, time.Time{}, "running 2900-"},
		"it is being stopped":         {podstatus.Supervisor{Phase: "Stopping", Started: at(2100), WaitingSince: at(5000), WaitingFor: []podstatus.Unmet{{Container: "web", Condition: "exited"}}}, "", time.Time{}, "running 2100-5000; stopping 5000- web:exited"},
		"it delivers its output":      {podstatus.Supervisor{Phase: "Finished", Started: at(2100), Finished: at(5000)}, "", time.Time{}, "running 2100-5000; ending 5000-"},
		"it has left its status":      {podstatus.Supervisor{Phase: "Finished", Started: at(2100), Finished: at(8500)}, "", ended, "running 2100-8500; ending 8500-9000 1s"},
		"it has ended before a start": {podstatus.Supervisor{Phase: "Finished", Reason: "DependencyFailure"}, Waiting, ended, "waiting 2000-9000 1s"},
		"it lies":                     {podstatus.Supervisor{Phase: "Finished", Started: at(-5000), Finished: at(99999)}, "", ended, "running 2000-10000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start{began: began, ended: test.ended, supervisor: &test.says}
			require.Equal(t, test.want, told(s.life(prelude{kind: test.before}, at(30000))))
		})
	}
}

func TestAHandOffIsFromTheLastNeedToTheCommand(t *testing.T) {
	t.Parallel()
	other := func(name string, from, to int, coarse bool) Container {
		return Container{Name: name, Lives: []Life{{Spans: []Span{{Kind: Running, From: at(from), To: at(to), coarseTo: coarse}}}}}
	}
	for name, test := range map[string]struct {
		needs   []need
		waited  int
		outcome string
		others  []Container
		want    string
	}{
		"from an end":                      {[]need{{"a", "completed"}}, 1005, "met", []Container{other("a", 0, 1000, false)}, "a 10"},
		"from the later of two ends":       {[]need{{"a", "exited"}, {"b", "completed"}}, 1005, "met", []Container{other("a", 0, 1000, false), other("b", 0, 1002, false)}, "b 8"},
		"from a start":                     {[]need{{"a", "started"}}, 1005, "met", []Container{other("a", 1001, 9000, false)}, "a 9"},
		"from what nobody records":         {[]need{{"a", "ready"}, {"b", "exited"}}, 1005, "met", []Container{other("a", 0, 9000, false), other("b", 0, 500, false)}, "a, b 5"},
		"of a step that ended after that":  {[]need{{"a", turn}}, 1005, "met", []Container{other("a", 0, 1030, false)}, "a 5"},
		"from an end in whole seconds":     {[]need{{"a", turn}}, 1010, "", []Container{other("a", 0, 1000, true)}, "a 10 1s"},
		"that the waiter itself knows":     {[]need{{"a", turn}}, 1005, "met", []Container{other("a", 0, 1000, true)}, "a 5"},
		"not from what nobody has seen":    {[]need{{"a", "ready"}}, 1010, "", []Container{other("a", 0, 9000, false)}, ""},
		"not from a file":                  {[]need{{"/work/go", ""}}, 1005, "met", nil, ""},
		"not from a command that runs yet": {[]need{{"a", "exited"}}, 1010, "", []Container{{Name: "a", Lives: []Life{{Spans: []Span{{Kind: Running, From: at(0)}}}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiter := Container{Name: "w", Lives: []Life{{Spans: []Span{
				{Kind: Waiting, From: at(100), To: at(test.waited), Outcome: test.outcome, needs: test.needs}, {Kind: Running, From: at(1010)},
			}}}}
			p := Pod{Containers: append(test.others, waiter)}
			got := ""
			for _, h := range p.handOffs() {
				require.Equal(t, "w", h.To)
				got = strings.TrimSpace(fmt.Sprintf("%s %d %s", h.From, h.Milliseconds, cmp.Or(h.Precision, "")))
			}
			require.Equal(t, test.want, got)
		})
	}
}
