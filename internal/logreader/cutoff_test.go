// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"

	"github.com/entrypointer/entrypointer/internal/target"
)

func requireCutOff(t *testing.T, err error) {
	t.Helper()
	_, is := errors.AsType[*CutOffError](err)
	require.True(t, is, "%v", err)
}

// cutOffText is the warning about a stream that was cut off.
func cutOffText(name, container, pod string) string {
	return name + ` of container "` + container + `" of pod "` + pod + "\" was cut off: the container has ended, and what it printed last may be missing.\n"
}

// containerStatus returns a status. The finish is that of the last run, "" if there is none.
func containerStatus(name, state, finished string) string {
	last := `{}`
	if finished != "" {
		last = `{"terminated":{"finishedAt":"` + finished + `"}}`
	}
	return `{"name":"` + name + `","state":{` + state + `},"lastState":` + last + `}`
}

const (
	isRunning = `"running":{"startedAt":"2026-11-18T11:06:40Z"}`
	isAgain   = `"running":{"startedAt":"2026-11-18T11:06:46Z"}`
)

func TestAStreamThatWasCutOffDoesNotReadAsWhole(t *testing.T) {
	t.Parallel()
	const killed = `"terminated":{"exitCode":137,"finishedAt":"2026-11-18T11:06:45Z"}`
	for name, test := range map[string]struct {
		change func(c *cluster)
		start  int64 // in milliseconds after base, 11:06:40
		cutOff bool
	}{
		"its container runs":                   {func(c *cluster) { c.containers["p"] = containerStatus("main", isRunning, "") }, 0, false},
		"its container was killed":             {func(c *cluster) { c.containers["p"] = containerStatus("main", killed, "") }, 0, true},
		"its container was killed at once":     {func(c *cluster) { c.containers["p"] = containerStatus("main", killed, "") }, 5500, true},
		"its container has started again":      {func(c *cluster) { c.containers["p"] = containerStatus("main", isRunning, "2026-11-18T11:06:39Z") }, 0, false},
		"it is of the previous run":            {func(c *cluster) { c.containers["p"] = containerStatus("main", isAgain, "2026-11-18T11:06:45Z") }, 0, true},
		"a run is a second younger than it":    {func(c *cluster) { c.containers["p"] = containerStatus("main", isAgain, "2026-11-18T11:06:46Z") }, 5400, true},
		"it began in the second of a restart":  {func(c *cluster) { c.containers["p"] = containerStatus("main", isAgain, "2026-11-18T11:06:46Z") }, 6500, false},
		"the runtime was slow to look":         {func(c *cluster) { c.containers["p"] = containerStatus("main", isAgain, "2026-11-18T11:06:45Z") }, 5990, false},
		"its container has a stale status":     {func(c *cluster) { c.containers["p"] = containerStatus("main", killed, "") }, 9000, false},
		"its container has no status yet":      {func(*cluster) {}, 0, false},
		"its pod is over":                      {func(c *cluster) { c.phase = "Failed" }, 0, true},
		"its pod is gone":                      {func(c *cluster) { c.gone = true }, 0, true},
		"nobody may know whether the pod runs": {func(c *cluster) { c.forbidden = true }, 0, false},
	} {
		c := newCluster(t)
		test.change(c)
		c.prints("p", "main", start(test.start), "stdout", said{test.start, "one\ntwo"})
		var warnings bytes.Buffer
		text, err := c.printed("p", func(o *Options) { o.Warnings = &warnings })
		require.Equal(t, "one\ntwo", text, name)
		switch {
		case test.cutOff:
			requireCutOff(t, err)
			require.Equal(t, cutOffText("stdout", "main", "p"), warnings.String(), name)
		case c.forbidden:
			require.NoError(t, err)
			require.Contains(t, warnings.String(), "you need the right to get pods")
		default:
			require.NoError(t, err, name)
			require.Empty(t, warnings.String(), name)
		}
	}
}

// Of two runs within a second, times don't tell which is the present one.
func TestARunBeforeAnotherOneIsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.containers["p"] = containerStatus("main", isAgain, "2026-11-18T11:06:46Z")
	c.prints("p", "main", start(6100), "stdout", said{6100, "one\n"})
	c.prints("p", "main", start(6500), "stdout", said{6500, "two\n"})
	var warnings bytes.Buffer
	text, err := c.printed("p", func(o *Options) { o.Warnings = &warnings })
	requireCutOff(t, err)
	require.Equal(t, "one\ntwo\n", text)
	require.Equal(t, cutOffText("stdout", "main", "p"), warnings.String(), "of the first")
}

func TestAFollowerThatMayNotGetPodsSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.forbidden = true
	c.prints("p", "main", start(0), "stdout", said{1, "one\n"})
	var warnings bytes.Buffer
	text, err := c.followed("p", func(o *Options) { o.Warnings = &warnings })
	require.NoError(t, err)
	require.Equal(t, "one\n", text)
	require.Equal(t, "stdout of container \"main\" of pod \"p\" isn't complete. To learn whether the container still runs, you need the right to get pods.\n", warnings.String())
}

func TestOnlyTheContainersThatWereCutOffAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.containers["p"] = containerStatus("runs", isRunning, "") + "," + containerStatus("killed", `"terminated":{"finishedAt":"2026-11-18T11:07:00Z"}`, "") + "," + containerStatus("whole", `"terminated":{"finishedAt":"2026-11-18T11:07:00Z"}`, "")
	c.prints("p", "runs", start(0), "stdout", said{1, "runs\n"})
	c.prints("p", "killed", start(0), "stdout", said{2, "killed\n"})
	c.prints("p", "killed", start(0), "stderr", said{3, "oh\n"})
	c.end(c.prints("p", "whole", start(0), "stdout", said{4, "whole\n"}), 6)
	var warnings bytes.Buffer
	text, err := c.printed("p", func(o *Options) { o.Warnings = &warnings })
	requireCutOff(t, err)
	require.Equal(t, "[pod/p/runs] runs\n[pod/p/killed] killed\n[pod/p/killed] oh\n[pod/p/whole] whole\n", text)
	require.Equal(t, cutOffText("stdout", "killed", "p")+cutOffText("stderr", "killed", "p"), warnings.String())
}

func TestEventsThatWereCutOffEndWithAMark(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{false, true} {
		c := newCluster(t)
		c.ends("Failed")
		const event = `{"time":"2026-11-18T11:06:40.007Z","event":"started","pid":7}` + "\n"
		const cutOff = `{"time":"2026-11-18T11:06:40.007Z","event":"cutOff"}` + "\n"
		c.prints("p", "main", start(0), "events", said{7, event})
		var warnings bytes.Buffer
		text, err := c.followed("p", func(o *Options) { o.Events, o.Follow, o.Warnings = true, follow, &warnings })
		requireCutOff(t, err)
		require.Equal(t, []string{event, cutOff}, slices.Collect(strings.Lines(text)))
		require.Equal(t, cutOffText("events", "main", "p"), warnings.String())
	}
}

// followed is printed with short pauses.
func (c *cluster) followed(named string, change func(*Options)) (string, error) {
	c.t.Helper()
	parsed, err := target.Parse(named, target.All())
	require.NoError(c.t, err)
	out := &synced.Buffer{}
	o := Options{Target: parsed, Tail: -1, Printer: NewPrinter(out), Follow: true, Warnings: &synced.Buffer{}}
	change(&o)
	if !o.Follow {
		err = c.client.Print(c.t.Context(), o)
		return out.String(), err
	}
	f := newFollower(c.client, o)
	f.listInterval, f.unendedGrace = 20*time.Millisecond, 200*time.Millisecond
	err = f.run(c.t.Context())
	return out.String(), err
}

// The bytes behind the gap were stored just now, so the service still waits for those
// before it.
func TestAKnownLossIsShownAtTheEndOfTheContainer(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{false, true} {
		for _, ended := range []bool{false, true} {
			c := newCluster(t)
			c.ends("Succeeded")
			id := c.stream("p", "main", start(0), "stdout", "one\n")
			require.NoError(t, c.store.Write(t.Context(), id, 10, []byte("two\n")))
			require.NoError(t, c.store.Write(t.Context(), id, 20, []byte("three\n")))
			want := "one\n[entrypointer: 6 bytes are missing]\ntwo\n[entrypointer: 6 bytes are missing]\nthree\n"
			if ended {
				c.end(id, 30)
				want += "[entrypointer: 4 bytes are missing]\n"
			}
			text, err := c.followed("p", func(o *Options) { o.Follow = follow })
			require.Equal(t, want, text, "%v %v", follow, ended)
			if ended {
				require.NoError(t, err)
			} else {
				requireCutOff(t, err)
			}
		}
	}
}

// A container that was killed, and started again, while its pod goes on.
func TestAFollowerSeesThatAPreviousRunWasCutOff(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.containers["p"] = containerStatus("main", isRunning, "2026-11-18T11:06:45Z")
	c.prints("p", "main", start(0), "stdout", said{1, "killed\n"})
	now := c.prints("p", "main", start(9000), "stdout", said{9001, "runs\n"})
	named, err := target.Parse("p", target.All())
	require.NoError(t, err)
	out, warnings := &synced.Buffer{}, &synced.Buffer{}
	f := newFollower(c.client, Options{Target: named, Tail: -1, Printer: NewPrinter(out), Warnings: warnings})
	f.listInterval, f.unendedGrace = 20*time.Millisecond, 200*time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- f.run(t.Context()) }()
	require.Eventually(t, func() bool { return warnings.String() == cutOffText("stdout", "main", "p") }, 20*time.Second, 10*time.Millisecond)
	c.end(now, 5)
	c.ends("Succeeded")
	requireCutOff(t, <-ended)
	require.Equal(t, cutOffText("stdout", "main", "p"), warnings.String())
	require.Len(t, out.String(), len("killed\nruns\n"))
}

func TestAFollowerSaysWhatArrivedAfterItWasReportedAsMissing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.stream("p", "main", start(0), "stdout", "one\n", "two\n", "three\n", "four\n")
	c.end(id, 19)
	var warnings bytes.Buffer
	f := newFollower(c.client, Options{Printer: NewPrinter(&bytes.Buffer{}), Warnings: &warnings})
	s := &followed{Stream: Stream{ID: id, Name: "stdout", Pod: "p", Container: "main"}}
	s.missing = []part{{From: 2, To: 5}, {From: 8, To: 9}}
	require.NoError(t, f.warnLate(t.Context(), s))
	require.Equal(t, "4 bytes of stdout of container \"main\" of pod \"p\" have arrived after they were reported as missing: read the log again to see them.\n", warnings.String())
	warnings.Reset()
	require.NoError(t, c.store.Drop(t.Context(), id, streams.Range{From: 0, To: 2}))
	s.missing = []part{{From: 19, To: 20}}
	require.NoError(t, f.warnLate(t.Context(), s))
	require.Empty(t, warnings.String())
}
