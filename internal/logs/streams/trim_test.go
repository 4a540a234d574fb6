// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStreamThatIsStillWrittenLosesItsOldBytes(t *testing.T) {
	const keep = 32 * time.Hour
	for name, test := range map[string]struct {
		pause time.Duration // between two lines
		marks bool          // whether markers follow
	}{"a line a minute": {time.Minute, false}, "a line in two hours": {2 * time.Hour, false}, "only markers follow": {time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			m, s, id := openMemory(t)
			var want bytes.Buffer
			var at int64
			var printed []time.Time // by line
			line := func() string { return fmt.Sprintf("%v one line\n", m.now.Format(time.RFC3339)) }
			length := int64(len(line()))
			for began := m.now; m.now.Sub(began) < 4*keep; m.now = m.now.Add(min(test.pause, 10*time.Minute)) {
				if since := m.now.Sub(began); since%test.pause == 0 {
					if test.marks && since > keep {
						require.NoError(t, s.Drop(t.Context(), id, Range{at, at + length}))
						want.WriteString(strings.Repeat(".", int(length)))
					} else {
						require.NoError(t, s.Write(t.Context(), id, at, []byte(line())))
						want.WriteString(line())
						printed = append(printed, m.now)
					}
					at += length
				}
				if m.now.Sub(began)%(10*time.Minute) == 0 {
					found, err := s.Tidy(t.Context(), id, m.now, keep)
					require.NoError(t, err)
					require.False(t, found.Expired)
				}
			}
			text, _ := textOf(t, m, s, id, 0)
			state, err := s.State(t.Context(), id)
			require.NoError(t, err)
			require.Empty(t, state.Missing)
			require.Len(t, state.Deleted, 1)
			deleted := state.Deleted.Len()
			require.Equal(t, strings.Repeat("-", int(deleted))+want.String()[deleted:], text)
			for i, line := range printed {
				age, isDeleted := m.now.Sub(line), int64(i+1)*length <= deleted
				require.False(t, age > keep*(trimSlack+1)/trimSlack+20*time.Minute && !isDeleted, "line %d of %v is %v old", i, line, age)
				require.False(t, age < keep && isDeleted, "line %d of %v is only %v old", i, line, age)
			}
		})
	}
}

func TestATrimmedStreamGoesOnWhereItWas(t *testing.T) {
	m, s, id := openMemory(t)
	for range 30 {
		_, err := s.Append(t.Context(), id, []byte("0123456789"))
		require.NoError(t, err)
	}
	m.now = m.now.Add(time.Hour)
	before, err := s.Inspect(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, m.bytes(directory(id)), before.Bytes)
	follower := s.Follower(id, 0)
	follower.now = func() time.Time { return m.now }
	part, err := follower.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(part.Data))
	done, err := s.Trim(t.Context(), id, m.now, before.Content*2/3)
	require.NoError(t, err)
	require.LessOrEqual(t, done.Bytes, before.Bytes-before.Content/3+ObjectOverhead, "what it needs for that")
	require.Equal(t, m.bytes(directory(id)), done.Bytes)
	again, err := s.Trim(t.Context(), id, m.now, before.Content*2/3)
	require.NoError(t, err)
	require.Equal(t, done.Trimmed, again.Trimmed, "another replica finds nothing left to do")
	part, err = follower.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Part{Range: Range{10, done.Trimmed}, Deleted: true}, part)

	_, err = s.Trim(t.Context(), id, m.now, 0)
	require.NoError(t, err)
	require.Zero(t, m.count(directory(id)+"data"))
	require.ErrorIs(t, s.End(t.Context(), id, 299), ErrConflict)
	from, err := s.Append(t.Context(), id, []byte("new"))
	require.NoError(t, err)
	require.Equal(t, int64(300), from)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("late")), "a repeated request")
	require.NoError(t, s.End(t.Context(), id, 303))
	tidy(t, m, s, id)
	require.Equal(t, 1, m.count(directory(id)+"data"))
	text, complete := textOf(t, m, s, id, 0)
	require.Equal(t, strings.Repeat("-", 300)+"new", text)
	require.True(t, complete)
}
