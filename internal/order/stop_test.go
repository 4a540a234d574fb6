// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
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
			ns, others := NewNeighbours([]string{dir}, nil, false), NewNeighbours(nil, []string{dir}, false)
			require.Equal(t, test.first, look(ns))
			require.Equal(t, glimpse{await.Met, test.first.stopping, 0}, look(others), "only dependents are waited for")
			test.after(t, dir)
			require.Equal(t, test.second, look(ns))
			require.Equal(t, glimpse{await.Met, test.second.stopping, 0}, look(others))
		})
	}
}

// TestNeighboursWithHeartbeats: a container without a heartbeat may have ended or not.
func TestNeighboursWithHeartbeats(t *testing.T) {
	dir := t.TempDir()
	i := NewIncarnation(dir, true, unix.Write)
	t.Cleanup(func() { die(i) })
	i.Publish(Started, 0)
	ns := NewNeighbours([]string{dir}, nil, true)
	require.Equal(t, glimpse{await.Waiting, false, 1}, look(ns))
	i.Publish(Stopping, 0)
	require.Equal(t, glimpse{await.Waiting, true, 1}, look(ns))
	require.Equal(t, glimpse{await.Waiting, true, 1}, look(NewNeighbours([]string{dir}, nil, true)))
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
	ds := NewDependencies([]Dependency{{Condition: IsReady, Dir: dir}}, false)
	_, _ = ds.Look()
	require.Equal(t, "it is being stopped", ds.Unmet()[0].Seen)
}
