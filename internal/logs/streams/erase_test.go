// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

var build = labeled("old", "tekton.dev/taskRun=build")

// secretStream creates a stream of build that has ended, and has the word secret in a joined
// object and in others.
func secretStream(t *testing.T, m *memory, s *Store) (id string) {
	t.Helper()
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	for i := range int64(20) {
		require.NoError(t, s.Write(t.Context(), id, 6*i, []byte("secret")))
	}
	m.now = m.now.Add(2 * settleTime)
	_, err = s.Tidy(t.Context(), id, m.now, 0)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), id, 120, []byte("secret")))
	require.NoError(t, s.Drop(t.Context(), id, Range{126, 130}))
	require.NoError(t, s.End(t.Context(), id, 130))
	require.NotZero(t, m.count(directory(id)+"joined"))
	require.NotZero(t, m.count(directory(id)+"data"))
	return id
}

// sweep does what the keeper does for a stream.
func sweep(t *testing.T, m *memory, s *Store, id string) {
	t.Helper()
	_, err := s.Source(t.Context(), id)
	if err == nil {
		tidy(t, m, s, id)
		return
	}
	require.ErrorIs(t, err, ErrNoStream)
	_, err = s.FinishErasure(t.Context(), id, m.now)
	require.NoError(t, err)
}

func (m *memory) hasOutput(id string) bool {
	return m.count(directory(id)+"data/")+m.count(directory(id)+"joined/")+m.count(directory(id)+"drop/") > 0
}

func TestAnErasedStreamIsGoneAtOnceOnAllReplicas(t *testing.T) {
	m, s, _ := openMemory(t)
	before := m.count("")
	id := secretStream(t, m, s)
	other, err := Open(t.Context(), m)
	require.NoError(t, err)
	reader := other.Reader(id, 0) // its replica has listed the stream already
	_, err = reader.Next(t.Context())
	require.NoError(t, err)
	did, err := s.Erase(t.Context(), id, build)
	require.NoError(t, err)
	require.Equal(t, Erasure{Streams: 1, Bytes: 126}, did)
	require.False(t, m.hasOutput(id))
	list, _, err := other.List(t.Context(), build.Namespace, build.Pod)
	require.NoError(t, err)
	require.Empty(t, list)
	text, _ := textOf(t, m, other, id, 0) // with a source that the replica has cached
	require.NotContains(t, text, "secret")

	m.now = m.now.Add(erasedAge)
	sweep(t, m, s, id)
	require.Equal(t, before, m.count(""), "%v", m.objects)
	is, err := s.FinishErasure(t.Context(), id, m.now)
	require.NoError(t, err)
	require.False(t, is)
}

func TestErasedBytesDontComeBackByALateWrite(t *testing.T) {
	m, s, _ := openMemory(t)
	id := secretStream(t, m, s)
	_, err := s.Erase(t.Context(), id, build)
	require.NoError(t, err)
	for range 3 {
		// A shipper that has no response repeats its request, to a replica that knows the stream
		// still; and one that joins writes what it has read before.
		require.NoError(t, s.Write(t.Context(), id, 60, []byte("secret")))
		require.NoError(t, s.create(t.Context(), directory(id)+"joined/"+rangeName(Range{0, 12}), []byte("secret")))
		text, _ := textOf(t, m, s, id, 0)
		require.Equal(t, strings.Repeat("-", 130), text)
		sweep(t, m, s, id)
		require.False(t, m.hasOutput(id))
		list, _, err := s.List(t.Context(), build.Namespace, build.Pod)
		require.NoError(t, err)
		require.Empty(t, list)
		m.now = m.now.Add(erasedAge / 4)
	}
	// A shipper that was told that there is no such stream creates it again.
	again, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("secret")))
	text, _ := textOf(t, m, s, id, 0)
	require.Equal(t, strings.Repeat("-", 130), text)
	sweep(t, m, s, id)
	require.False(t, m.hasOutput(id))
}

func TestAPodThatGoesOnIsReadFromTheErasureOn(t *testing.T) {
	for name, again := range map[string]bool{"it has made its stream again": true, "its replica knew the stream still": false} {
		t.Run(name, func(t *testing.T) {
			m, s, _ := openMemory(t)
			id, err := s.Create(t.Context(), build)
			require.NoError(t, err)
			require.NoError(t, s.Write(t.Context(), id, 0, []byte("secret")))
			_, err = s.Erase(t.Context(), id, build)
			require.NoError(t, err)
			if again {
				_, err = s.Create(t.Context(), build)
				require.NoError(t, err)
			}
			require.NoError(t, s.Write(t.Context(), id, 6, []byte("harmless")))
			sweep(t, m, s, id)
			list, _, err := s.List(t.Context(), build.Namespace, build.Pod)
			require.NoError(t, err)
			require.Len(t, list, 1)
			text, _ := textOf(t, m, s, id, 0)
			require.Equal(t, "------harmless", text)
			m.now = m.now.Add(2 * erasedAge)
			sweep(t, m, s, id)
			text, _ = textOf(t, m, s, id, 0)
			require.Equal(t, "------harmless", text)
		})
	}
}

func TestAnInterruptedErasureHidesAllOrNothingAndIsFinished(t *testing.T) {
	for calls := range 60 {
		m, s, _ := openMemory(t)
		id := secretStream(t, m, s)
		killed, broken := *s, &failingBucket{left: calls}
		killed.bucket = &interrupted{m, func(bool) bool { return broken.call() }, func() bool { return false }}
		_, failed := killed.Erase(t.Context(), id, build)
		if failed != nil {
			require.ErrorIs(t, failed, errKilled)
		}
		text, _ := textOf(t, m, s, id, 0)
		require.Contains(t, []string{strings.Repeat("secret", 21) + "....", strings.Repeat("-", 130)}, text, "after %d calls", calls)
		if text[0] == '-' && calls%2 == 0 {
			sweep(t, m, s, id) // of any replica
			require.False(t, m.hasOutput(id), "after %d calls", calls)
		} else {
			list, err := s.toErase(t.Context(), build.Namespace, "pods/tenant/old/", all)
			require.NoError(t, err)
			if failed != nil && m.count("labels/") > 0 {
				require.Len(t, list, 1, "after %d calls, a repeated request finds the stream", calls)
			}
			_, err = s.eraseAll(t.Context(), list, false)
			require.NoError(t, err)
			require.False(t, m.hasOutput(id))
			require.Zero(t, m.count("pods/tenant/old/")+m.count("labels/"))
		}
	}
}

func all(Listed) (bool, error) { return true, nil }

func TestAnExpiredStreamThatCouldBeRestoredIsErasedToo(t *testing.T) {
	m, s, _ := openMemory(t)
	id := secretStream(t, m, s)
	require.NoError(t, s.MarkDeleted(t.Context(), id, build))
	list, err := s.toErase(t.Context(), build.Namespace, "pods/tenant/old/", all)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = s.eraseAll(t.Context(), list, false)
	require.NoError(t, err)
	require.False(t, m.hasOutput(id))
	require.Zero(t, m.count(tombstones))
	restored, _, err := s.NewSweep(m.now.Add(tombstoneAge), false).FinishDeletions(t.Context(), '0', 'f', func(string) time.Duration { return 0 })
	require.NoError(t, err)
	require.Zero(t, restored)
}

func TestAPodWithManyStreamsIsErasedByRepeatedRequests(t *testing.T) {
	bucket := storagetest.OpenFiles(t, t.TempDir())
	s, err := Open(t.Context(), bucket)
	require.NoError(t, err)
	const count = 40
	for i := range count {
		source := build
		source.Start = fmt.Sprint(i)
		id, err := s.Create(t.Context(), source)
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), id, 0, []byte("secret")))
	}
	found, err := s.ErasePod(t.Context(), "tenant", "old", all, true)
	require.NoError(t, err)
	require.Equal(t, Erasure{Streams: count, Bytes: 6 * count}, found, "a dry run counts, and deletes nothing")
	found, err = s.ErasePod(t.Context(), "tenant", "old", func(l Listed) (bool, error) { return l.Start == "7", nil }, false)
	require.NoError(t, err)
	require.Equal(t, Erasure{Streams: 1, Bytes: 6}, found)

	ctx, cancel := context.WithCancel(t.Context())
	list, err := s.toErase(ctx, "tenant", "pods/tenant/old/", all)
	require.NoError(t, err)
	require.Len(t, list, count-1)
	cancel()
	found, err = s.eraseAll(ctx, list, false)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, Erasure{Left: count - 1}, found, "no time was left")

	found, err = s.ErasePod(t.Context(), "tenant", "old", all, false)
	require.NoError(t, err)
	require.Equal(t, Erasure{Streams: count - 1, Bytes: 6 * (count - 1)}, found)
	found, err = s.ErasePod(t.Context(), "tenant", "old", all, false)
	require.NoError(t, err)
	require.Zero(t, found)
}

func TestASearchFindsNothingOfWhatIsErased(t *testing.T) {
	m, s, _ := openMemory(t)
	id := secretStream(t, m, s)
	other, err := Open(t.Context(), m)
	require.NoError(t, err)
	found := func() string {
		c := newCollector()
		_, err := other.Search(t.Context(), SearchQuery{Namespace: build.Namespace, Keep: everything}, c)
		require.NoError(t, err)
		require.Empty(t, c.unread)
		return c.texts[id]
	}
	require.Contains(t, found(), "secret")
	_, err = s.Erase(t.Context(), id, build)
	require.NoError(t, err)
	require.NotContains(t, found(), "secret")
	require.NoError(t, other.Write(t.Context(), id, 60, []byte("secret")), "a request that was sent before")
	require.NotContains(t, found(), "secret")
}
