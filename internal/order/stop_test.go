// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// glimpse is the result of one look at neighbours.
type glimpse struct {
	state    await.State
	stopping bool
	unmet    int
}

func look(ns *Neighbours) glimpse {
	state, _ := ns.Look()
	return glimpse{state, ns.Stopping(), len(ns.Unmet())}
}

// TestNeighboursDuringAStop changes a container between two looks.
func TestNeighboursDuringAStop(t *testing.T) {
	waits, held, over, overTogether := glimpse{await.Waiting, false, 1}, glimpse{await.Waiting, true, 1}, glimpse{await.Met, false, 0}, glimpse{await.Met, true, 0}
	var i *Incarnation
	is := func(phase Phase) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { i = live(t, dir, phase, 0) }
	}
	says := func(phase Phase) func(*testing.T, string) { return func(*testing.T, string) { i.Publish(phase, 0) } }
	dies := func(*testing.T, string) { die(i) }
	garbage := func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(dir+stateName))
		require.NoError(t, os.WriteFile(dir+stateName, []byte("x"), 0o600))
	}
	nothing := func(*testing.T, string) {}
	for name, test := range map[string]struct {
		before, after func(t *testing.T, dir string)
		first, second glimpse
	}{
		"was never there":             {nothing, is(Started), over, over},
		"waits":                       {is(Preparing), nothing, waits, waits},
		"runs":                        {is(Ready), nothing, waits, waits},
		"is stopped":                  {is(Stopping), nothing, held, held},
		"is stopped now":              {is(Started), says(Stopping), waits, held},
		"is stopped, and ends":        {is(Stopping), says(Ended), held, overTogether},
		"ends now":                    {is(Started), says(Ended), waits, overTogether},
		"is killed now":               {is(Started), dies, waits, overTogether},
		"had ended":                   {is(Ended), nothing, over, over},
		"had ended, and is restarted": {is(Ended), is(Started), over, over},
		"was killed while it stopped": {func(t *testing.T, dir string) { is(Stopping)(t, dir); dies(t, dir) }, nothing, over, over},
		"can't be read":               {func(t *testing.T, dir string) { is(Stopping)(t, dir); garbage(t, dir) }, nothing, waits, waits},
		"can't be read, and is killed": {
			func(t *testing.T, dir string) { is(Started)(t, dir); garbage(t, dir) },
			dies, waits, over,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.before(t, dir)
			ns, others := NewNeighbours([]string{dir}, nil, false, time.Minute), NewNeighbours(nil, []string{dir}, false, time.Minute)
			require.Equal(t, test.first, look(ns))
			require.Equal(t, glimpse{await.Met, test.first.stopping, 0}, look(others), "only dependents are waited for")
			test.after(t, dir)
			require.Equal(t, test.second, look(ns))
			require.Equal(t, glimpse{await.Met, test.second.stopping, 0}, look(others))
		})
	}
}

// TestAStopThatIsOlderThanTheGracePeriodIsNoStopOfThePod: it was a stop of that container
// alone, or a hostile container has set the time.
func TestAStopThatIsOlderThanTheGracePeriodIsNoStopOfThePod(t *testing.T) {
	const grace = time.Hour
	dir, now := t.TempDir(), time.Now()
	live(t, dir, Stopping, 0)
	stoppedBefore := func(ago time.Duration) *Neighbours {
		require.NoError(t, os.Chtimes(dir+stateName, now.Add(-ago), now.Add(-ago)))
		return NewNeighbours([]string{dir}, nil, false, grace)
	}
	for _, test := range []struct {
		ago, stoppedFor time.Duration
		counts          bool
	}{
		{-1000 * time.Hour, 0, true}, // a clock that was wrong
		{0, 0, true},
		{grace, grace, true},
		{grace + hookExtension, grace + hookExtension, true},
		{grace + hookExtension + time.Second, 0, false},
		{1000 * time.Hour, 0, false},
	} {
		ns := stoppedBefore(test.ago)
		require.Equal(t, test.counts, ns.noteStop(dir, now), test)
		require.InDelta(t, test.stoppedFor, ns.StoppedFor(now), float64(time.Millisecond), test)
	}
	require.Equal(t, glimpse{await.Waiting, true, 1}, look(stoppedBefore(grace/2)))
	require.Equal(t, glimpse{await.Waiting, false, 1}, look(stoppedBefore(2*grace)))
}

// TestNeighboursWithHeartbeats: a container without a heartbeat may have ended or not.
func TestNeighboursWithHeartbeats(t *testing.T) {
	dir := t.TempDir()
	i := NewIncarnation(dir, true, unix.Write)
	t.Cleanup(func() { die(i) })
	i.Publish(Started, 0)
	ns := NewNeighbours([]string{dir}, nil, true, time.Minute)
	require.Equal(t, glimpse{await.Waiting, false, 1}, look(ns))
	i.Publish(Stopping, 0)
	require.Equal(t, glimpse{await.Waiting, true, 1}, look(ns))
	require.Equal(t, glimpse{await.Waiting, true, 1}, look(NewNeighbours([]string{dir}, nil, true, time.Minute)))
	i.Publish(Ended, 0)
	require.Equal(t, glimpse{await.Met, true, 0}, look(ns))
	paths, _ := ns.Directories()
	require.Empty(t, paths)
}

// TestAStoppingContainerMeetsNoCondition any more.
func TestAStoppingContainerMeetsNoCondition(t *testing.T) {
	dir := t.TempDir()
	live(t, dir, Stopping, 0)
	require.Equal(t, all(wait), judgements(dir, false))
	ds := NewDependencies([]Dependency{{Condition: conditions.Ready, Dir: dir}}, false)
	_, _ = ds.Look()
	require.Equal(t, "it is being stopped", ds.Unmet()[0].Seen)
}
