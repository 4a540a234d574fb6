// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// timesOf returns the times of all parts of a stream, and its text.
func timesOf(t *testing.T, s *Store, id string, from int64) (all [][]times.Mark, text string) {
	t.Helper()
	r := s.Reader(id, from)
	for {
		part, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) || errors.Is(err, ErrNotYet) {
			return all, text
		}
		require.NoError(t, err)
		all = append(all, part.Times)
		text += string(part.Data)
	}
}

func TestTimesAreKeptAndCutWhereObjectsOverlap(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 4, []byte("ddeeff"), times.Mark{At: 4, Time: 40}, times.Mark{At: 6, Time: 50}, times.Mark{At: 8, Time: 60}))
	time.Sleep(20 * time.Millisecond) // the storage's clock tells the two apart
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("aabbDDEEFFgg"), times.Mark{At: 0, Time: 10}, times.Mark{At: 2, Time: 20}, times.Mark{At: 5, Time: 41}, times.Mark{At: 11, Time: 70}))
	all, text := timesOf(t, s, id, 0)
	require.Equal(t, "aabbddeeffgg", text)
	require.Equal(t, [][]times.Mark{
		{{At: 0, Time: 10}, {At: 2, Time: 20}},
		{{At: 4, Time: 40}, {At: 6, Time: 50}, {At: 8, Time: 60}},
		{{At: 10, Time: 41}, {At: 11, Time: 70}},
	}, all)
	all, _ = timesOf(t, s, id, 7)
	require.Equal(t, [][]times.Mark{{{At: 7, Time: 50}, {At: 8, Time: 60}}, {{At: 10, Time: 41}, {At: 11, Time: 70}}}, all, "a reader that begins in the middle")
}

func TestBytesWithoutTimesHaveTheTimeOfTheStorage(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	before := time.Now().Add(-time.Second).UnixMilli()
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("hello")))
	_, err := s.Append(t.Context(), id, []byte("again"))
	require.NoError(t, err)
	require.NoError(t, s.Drop(t.Context(), id, Range{10, 20}))
	all, _ := timesOf(t, s, id, 3)
	require.Len(t, all, 3)
	for i, from := range []int64{3, 5} {
		require.Len(t, all[i], 1)
		require.Equal(t, from, all[i][0].At)
		require.GreaterOrEqual(t, all[i][0].Time, before)
		require.LessOrEqual(t, all[i][0].Time, time.Now().Add(time.Second).UnixMilli())
	}
	require.Empty(t, all[2], "nothing came")
}

func TestJoiningChangesNoTime(t *testing.T) {
	m, s, id := openMemory(t)
	require.NoError(t, s.Write(t.Context(), id, 4, []byte("ddeeff"), times.Mark{At: 4, Time: 40}, times.Mark{At: 6, Time: 50}))
	m.now = m.now.Add(time.Minute)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("aabbDDEEFFgg"), times.Mark{At: 0, Time: 10}, times.Mark{At: 5, Time: 41}, times.Mark{At: 11, Time: 70}))
	require.NoError(t, s.Write(t.Context(), id, 12, []byte("hh"))) // without times
	require.NoError(t, s.End(t.Context(), id, 14))
	written := m.now.UnixMilli()
	want, text := timesOf(t, s, id, 0)
	require.Equal(t, "aabbddeeffgghh", text)
	require.Equal(t, []times.Mark{{At: 12, Time: written}}, want[len(want)-1])

	tidy(t, m, s, id)
	require.Zero(t, m.count(directory(id)+"data"))
	all, text := timesOf(t, s, id, 0)
	require.Equal(t, "aabbddeeffgghh", text)
	require.Equal(t, want, all)
}
