// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

func TestADeletedStreamIsRemovedFromTheIndex(t *testing.T) {
	const month = 30 * 24 * time.Hour
	m, s, _ := openMemory(t)
	before := m.count("")
	source := labeled("old", "tekton.dev/taskRun=build")
	id, err := s.Create(t.Context(), source)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("hello")))
	require.NoError(t, s.End(t.Context(), id, 5))
	m.now = m.now.Add(month - time.Hour)
	found, err := s.Tidy(t.Context(), id, m.now, month)
	require.NoError(t, err)
	require.False(t, found.Expired)
	m.now = m.now.Add(2 * time.Hour)
	found, err = s.Tidy(t.Context(), id, m.now, 0)
	require.NoError(t, err)
	require.False(t, found.Expired, "0 keeps all")
	found, err = s.Tidy(t.Context(), id, m.now, month)
	require.NoError(t, err)
	require.True(t, found.Expired)

	require.NoError(t, s.MarkDeleted(t.Context(), id, source))
	_, err = s.Source(t.Context(), id)
	require.ErrorIs(t, err, ErrNoStream)
	removed, err := s.removeDeleted(t.Context(), m.now)
	require.NoError(t, err)
	require.Zero(t, removed, "another replica may still have the stream in its cache")
	m.now = m.now.Add(tombstoneAge)
	removed, err = s.removeDeleted(t.Context(), m.now)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	require.Equal(t, before, m.count(""), "%v", m.objects)
}

// removeDeleted is FinishDeletions where the retention of all streams is over.
func (s *Store) removeDeleted(ctx context.Context, now time.Time) (removed int, err error) {
	_, removed, err = s.NewSweep(now, false).FinishDeletions(ctx, '0', 'f', func(string) time.Duration { return time.Nanosecond })
	return removed, err
}

// A failingBucket fails from a certain call on.
type failingBucket struct {
	storage.Bucket
	left int
}

func (f *failingBucket) call() (killed bool) { f.left--; return f.left < 0 }

func TestAnInterruptedDeletionLeavesNoStreamThatLooksComplete(t *testing.T) {
	for calls := range 40 {
		m, s, _ := openMemory(t)
		before := m.count("")
		source := labeled("old", "tekton.dev/taskRun=build")
		id, err := s.Create(t.Context(), source)
		require.NoError(t, err)
		for i := range int64(5) {
			require.NoError(t, s.Write(t.Context(), id, i, []byte("x")))
		}
		require.NoError(t, s.End(t.Context(), id, 5))
		m.now = m.now.Add(time.Hour)
		require.NoError(t, s.MarkDeleted(t.Context(), id, source))
		m.now = m.now.Add(tombstoneAge)
		killed, broken := *s, &failingBucket{left: calls}
		killed.bucket = &interrupted{m, func(bool) bool { return broken.call() }, func() bool { return false }}
		_, err = killed.removeDeleted(t.Context(), m.now)
		text, complete := textOf(t, m, s, id, 0)
		require.True(t, !complete || text == "xxxxx", "after %d calls: %q", calls, text)
		if err != nil {
			require.ErrorIs(t, err, errKilled)
		}

		// The pod may still be writing, or not.
		again := calls%2 == 0
		if again {
			_, err = s.Create(t.Context(), source)
			require.NoError(t, err)
			require.NoError(t, s.Write(t.Context(), id, 3, []byte("yy")))
		}
		_, err = s.removeDeleted(t.Context(), m.now)
		require.NoError(t, err)
		list, _, err := s.List(t.Context(), source.Namespace, source.Pod)
		require.NoError(t, err)
		if again {
			require.Len(t, list, 1, "after %d calls", calls)
			text, _ = textOf(t, m, s, id, 3)
			require.Equal(t, "yy", text)
		} else {
			require.Empty(t, list)
			require.Equal(t, before, m.count(""), "after %d calls", calls)
		}
	}
}

func TestWritesAfterAStreamWasMarkedAsDeletedAreKept(t *testing.T) {
	for name, test := range map[string]struct{ early, again bool }{
		"its pod has made it again": {again: true}, "a replica didn't know yet": {}, "it came between the look and the burial": {early: true},
	} {
		m, s, _ := openMemory(t)
		source := labeled("old", "tekton.dev/taskRun=build")
		id, err := s.Create(t.Context(), source)
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), id, 0, []byte("old")))
		m.now = m.now.Add(time.Hour)
		write := func() { require.NoError(t, s.Write(t.Context(), id, 3, []byte("new"))) }
		if test.early {
			write()
		}
		m.now = m.now.Add(time.Second)
		require.NoError(t, s.MarkDeleted(t.Context(), id, source))
		m.now = m.now.Add(time.Second)
		if test.again {
			_, err = s.Create(t.Context(), source)
			require.NoError(t, err)
		}
		if !test.early {
			write()
		}
		m.now = m.now.Add(2 * tombstoneAge)
		_, err = s.removeDeleted(t.Context(), m.now)
		require.NoError(t, err)
		text, _ := textOf(t, m, s, id, 3)
		require.Equal(t, "new", text, name)
		state, err := s.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, Ranges{{3, 6}}, state.Stored, name)
		_, err = s.Source(t.Context(), id)
		require.NoError(t, err, name)
	}
}

func TestTheTimeIsThatOfTheStorage(t *testing.T) {
	m, s, _ := openMemory(t)
	require.NoError(t, m.Create(t.Context(), "clock/left", nil))
	m.now = m.now.Add(2 * time.Hour)
	objects := m.count("")
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	require.Equal(t, m.now, now)
	require.Equal(t, objects-1, m.count(""), "what a crash has left is gone")
}

func TestAllStreamsAreFound(t *testing.T) {
	_, s, _ := openMemory(t)
	want := map[string]bool{}
	for i := range 50 {
		source := stdout
		source.Start = fmt.Sprint(rand.Int(), i)
		id, err := s.Create(t.Context(), source)
		require.NoError(t, err)
		want[id] = true
	}
	last := ""
	for digit := range 16 {
		require.NoError(t, s.EachInventory(t.Context(), fmt.Sprintf("%x", digit), func(of *Inventory) bool {
			require.Greater(t, of.ID, last)
			require.True(t, of.Has("meta"))
			delete(want, of.ID)
			last = of.ID
			return true
		}))
	}
	require.Empty(t, want)
}
