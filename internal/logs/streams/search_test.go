// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A collector is a Searcher that keeps the text of each stream, with a dot for each byte that was
// dropped, and a question mark for each that is missing.
type collector struct {
	order  []string // IDs of streams that were read to their end
	texts  map[string]string
	unread map[string]error
	hook   func(*Listed, Part) error
}

func (c *collector) Part(of *Listed, p Part) error {
	if p.From != int64(len(c.texts[of.ID])) && c.hook == nil {
		return fmt.Errorf("a part at %d comes behind %d", p.From, len(c.texts[of.ID]))
	}
	switch {
	case p.Data != nil:
		c.texts[of.ID] += string(p.Data)
	case p.Dropped:
		c.texts[of.ID] += strings.Repeat(".", int(p.Len()))
	default:
		c.texts[of.ID] += strings.Repeat("?", int(p.Len()))
	}
	if c.hook != nil {
		return c.hook(of, p)
	}
	return nil
}

func (c *collector) Unread(of *Listed, err error) error {
	c.unread[of.ID] = err
	return nil
}

func (c *collector) End(of *Listed) error {
	c.order = append(c.order, of.ID)
	return nil
}

func newCollector() *collector {
	return &collector{texts: map[string]string{}, unread: map[string]error{}}
}

// wholeTenant is the query for a whole namespace.
func wholeTenant() SearchQuery {
	return SearchQuery{Namespace: "tenant", Keep: func(Listed) bool { return true }}
}

func makeStream(t *testing.T, s *Store, pod, name string) string {
	t.Helper()
	id, err := s.Create(t.Context(), Source{Namespace: "tenant", Pod: pod, PodUID: pod, Container: "main", Name: name, Labels: map[string]string{"entrypointer.dev/job": pod}})
	require.NoError(t, err)
	return id
}

func TestASearchReadsWhatReadersRead(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := newMemory()
		s, err := Open(t.Context(), m)
		require.NoError(t, err)
		var ids []string
		for i := range 1 + random.IntN(20) {
			m.now = m.now.Add(time.Second)
			id := makeStream(t, s, fmt.Sprint("p", i), "stdout")
			ids = append([]string{id}, ids...)
			at := int64(0)
			for range random.IntN(200) {
				length := 1 + random.IntN(1+random.IntN(2000))
				switch random.IntN(20) {
				case 0:
					require.NoError(t, s.Drop(t.Context(), id, Range{at, at + int64(length)}))
				case 1: // missing
				default:
					require.NoError(t, s.Write(t.Context(), id, at-min(at, int64(random.IntN(3))), []byte(strings.Repeat(string(rune('a'+random.IntN(26))), length))))
				}
				at += int64(length)
			}
			if random.IntN(2) == 0 {
				tidy(t, m, s, id)
			}
			if random.IntN(2) == 0 {
				require.NoError(t, s.End(t.Context(), id, at+5))
			}
		}
		c := newCollector()
		more, err := s.Search(t.Context(), wholeTenant(), c)
		require.NoError(t, err)
		require.False(t, more)
		require.Empty(t, c.unread)
		require.Equal(t, ids, c.order, "the newest first")
		for _, id := range ids {
			want, _ := textOf(t, m, s, id, 0)
			require.Equal(t, want, c.texts[id], "seed %d", seed)
		}
		require.Zero(t, s.HeldBytes())
	}
}

func TestASearchSelectsStreams(t *testing.T) {
	m := newMemory()
	s, err := Open(t.Context(), m)
	require.NoError(t, err)
	a, b := makeStream(t, s, "a", "stdout"), makeStream(t, s, "b", "stdout")
	_, err = s.Create(t.Context(), Source{Namespace: "other", Pod: "a", PodUID: "a", Name: "stdout"})
	require.NoError(t, err)
	selector, err := labels.Parse("entrypointer.dev/job=b")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*SearchQuery)
		want   []string
	}{
		"a pod":               {func(q *SearchQuery) { q.Pod = "a" }, []string{a}},
		"a label":             {func(q *SearchQuery) { q.Selector = selector }, []string{b}},
		"a label and a pod":   {func(q *SearchQuery) { q.Selector, q.Pod = selector, "a" }, nil},
		"a condition":         {func(q *SearchQuery) { q.Keep = func(l Listed) bool { return l.ID == b } }, []string{b}},
		"later than all":      {func(q *SearchQuery) { q.NotBefore = m.now.Add(time.Second) }, nil},
		"a pod without logs":  {func(q *SearchQuery) { q.Pod = "c" }, nil},
		"a namespace without": {func(q *SearchQuery) { q.Namespace = "none" }, nil},
	} {
		found, q := newCollector(), wholeTenant()
		c.change(&q)
		_, err := s.Search(t.Context(), q, found)
		require.NoError(t, err, name)
		require.Equal(t, c.want, found.order, name)
	}
	_, err = s.Search(t.Context(), SearchQuery{Namespace: ".."}, newCollector())
	require.ErrorIs(t, err, ErrNoPod)
}

func TestObjectsThatAreJoinedDuringASearchAreRead(t *testing.T) {
	s := replica(t, t.TempDir())
	id := makeStream(t, s, "a", "stdout")
	var want strings.Builder
	for i := range 200 {
		text := fmt.Sprintf("line %d\n", i)
		require.NoError(t, s.Write(t.Context(), id, int64(want.Len()), []byte(text)))
		want.WriteString(text)
	}
	c := newCollector()
	c.hook = func(*Listed, Part) error {
		c.hook = nil
		for i := range 4 {
			_, err := s.Tidy(t.Context(), id, time.Now().Add(time.Duration(1+i)*2*settleTime), 0)
			require.NoError(t, err)
		}
		return nil
	}
	_, err := s.Search(t.Context(), wholeTenant(), c)
	require.NoError(t, err)
	require.Empty(t, c.unread)
	require.Equal(t, want.String(), c.texts[id])
	require.Equal(t, []string{id}, c.order)
}

func TestWhatCanNotBeReadIsNamedAndTheRestIsRead(t *testing.T) {
	directory := t.TempDir()
	s := replica(t, directory)
	broken, whole := makeStream(t, s, "a", "stdout"), makeStream(t, s, "b", "stdout")
	for i, id := range []string{broken, broken, whole} {
		require.NoError(t, s.Write(t.Context(), id, int64(3*(i%2)), []byte("abc")))
	}
	require.NoError(t, os.WriteFile(filepath.Join(directory, "streams", broken, "data", rangeName(Range{0, 3})), []byte("no gzip"), 0o600))
	c := newCollector()
	c.hook = func(*Listed, Part) error { return nil }
	_, err := s.Search(t.Context(), wholeTenant(), c)
	require.NoError(t, err)
	require.Len(t, c.unread, 1)
	require.Error(t, c.unread[broken])
	require.Equal(t, map[string]string{broken: "abc", whole: "abc"}, c.texts)
	require.Len(t, c.order, 2)
}

// A countingBucket counts reads of data.
type countingBucket struct {
	storage.Bucket
	reads atomic.Int64
}

func (c *countingBucket) Read(ctx context.Context, key string) ([]byte, error) {
	if strings.Contains(key, "/data/") {
		c.reads.Add(1)
	}
	return c.Bucket.Read(ctx, key)
}

func countReads(t *testing.T, s *Store) *countingBucket {
	t.Helper()
	c := &countingBucket{Bucket: s.bucket}
	s.bucket = c
	return c
}

func TestOldObjectsAreNotReadForAShortSpan(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(50) {
		m.now = m.now.Add(time.Hour)
		require.NoError(t, s.Write(t.Context(), id, 3*i, []byte("abc")))
		if i == 10 {
			require.NoError(t, s.Drop(t.Context(), id, Range{33, 36}))
		}
	}
	reads, c, q := countReads(t, s), newCollector(), wholeTenant()
	c.hook = func(_ *Listed, p Part) error {
		require.NotNil(t, p.Data, "what was dropped long ago doesn't count")
		return nil
	}
	q.Span.Since = m.now.Add(-3 * time.Hour)
	_, err := s.Search(t.Context(), q, c)
	require.NoError(t, err)
	require.Equal(t, int64(5), reads.reads.Load(), "those of three hours, and of the tolerance")
}

func TestWhoTakesPartsHoldsASearchBack(t *testing.T) {
	_, s, id := openMemory(t)
	for i := range int64(1000) {
		require.NoError(t, s.Write(t.Context(), id, 3*i, []byte("abc")))
	}
	reads, c, enough := countReads(t, s), newCollector(), errors.New("enough")
	const most = fetchAhead + unpackAhead + 10
	c.hook = func(*Listed, Part) error {
		require.LessOrEqual(t, reads.reads.Load(), int64(most))
		return enough
	}
	_, err := s.Search(t.Context(), wholeTenant(), c)
	require.ErrorIs(t, err, enough)
	require.LessOrEqual(t, reads.reads.Load(), int64(most), "nothing is read any more")
}

func TestASearchEndsWithItsContext(t *testing.T) {
	m, s, id := openMemory(t)
	for i := range int64(1000) {
		require.NoError(t, s.Write(t.Context(), id, 3*i, []byte("abc")))
	}
	reason := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := newCollector()
	c.hook = func(*Listed, Part) error { cancel(reason); return nil }
	holding, release := s.WithMemoryHold("tenant")
	_, err := holding.Search(ctx, wholeTenant(), c)
	require.ErrorIs(t, err, reason)
	require.Equal(t, "abc", c.texts[id])
	before := m.calls.Load()
	_, err = holding.Search(ctx, wholeTenant(), newCollector())
	require.ErrorIs(t, err, reason)
	require.LessOrEqual(t, m.calls.Load()-before, int64(20), "no more than the streams ahead")
	release()
	require.Eventually(t, func() bool { return s.HeldBytes() == 0 }, 5*time.Second, 10*time.Millisecond, "a layout is shared for a moment")
}

func TestSearchesShareTheMemoryOfReaders(t *testing.T) {
	_, s, _ := openMemory(t)
	for range maxNamespaceMemory / SearchMemory {
		holding, release := s.WithMemoryHold("tenant")
		t.Cleanup(release)
		_, err := holding.Search(t.Context(), wholeTenant(), newCollector())
		require.NoError(t, err)
	}
	holding, release := s.WithMemoryHold("tenant")
	defer release()
	_, err := holding.Search(t.Context(), wholeTenant(), newCollector())
	require.ErrorIs(t, err, ErrBusy)
}
