// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

var stdout = Source{Namespace: "tenant", Pod: "pod", PodUID: "uid", Container: "main", Start: "1", Name: "stdout"}

// replica opens a store on the same objects as other replicas, with a bucket of its own.
func replica(t *testing.T, directory string) *Store {
	t.Helper()
	s, err := Open(t.Context(), bucket(t, directory))
	require.NoError(t, err)
	return s
}

func bucket(t *testing.T, directory string) storage.Bucket {
	t.Helper()
	return storagetest.OpenFiles(t, directory)
}

func created(t *testing.T, s *Store) string {
	t.Helper()
	id, err := s.Create(t.Context(), stdout)
	require.NoError(t, err)
	return id
}

// readAll reads a stream from an offset on, as if gapWait were over. Dots stand for
// dropped bytes, question marks for missing ones.
func readAll(t *testing.T, s *Store, id string, from int64) (text string, complete bool) {
	t.Helper()
	r := s.Reader(id, from)
	r.now = later(gapWait)
	return drain(t, r)
}

// later returns a clock that is ahead.
func later(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

func drain(t *testing.T, r *Reader) (text string, complete bool) {
	t.Helper()
	var all bytes.Buffer
	for {
		part, err := r.Next(t.Context())
		switch {
		case errors.Is(err, ErrNotYet):
			return all.String(), false
		case errors.Is(err, io.EOF):
			return all.String(), true
		}
		require.NoError(t, err)
		switch {
		case part.Data != nil:
			require.Len(t, part.Data, int(part.Len()))
			all.Write(part.Data)
		case part.Dropped:
			all.Write(bytes.Repeat([]byte("."), int(part.Len())))
		case part.Deleted:
			all.Write(bytes.Repeat([]byte("-"), int(part.Len())))
		default:
			all.Write(bytes.Repeat([]byte("?"), int(part.Len())))
		}
	}
}

func TestTheIDOfAStreamIsTheSameAtEachReplicaAndTellsNothing(t *testing.T) {
	directory := t.TempDir()
	a, b, other := replica(t, directory), replica(t, directory), replica(t, t.TempDir())
	id := created(t, a)
	require.Equal(t, id, created(t, b))
	require.NotEqual(t, id, created(t, other))
	moved := stdout
	moved.Pod, moved.PodUID = "poduid", "" // the same letters
	movedID, err := a.Create(t.Context(), moved)
	require.NoError(t, err)
	require.NotEqual(t, id, movedID)
	source, err := b.Source(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, stdout, source)
	for _, none := range []string{"", "stdout", "../" + id, id[1:] + "0", id + "/meta"} {
		_, err := a.Source(t.Context(), none)
		require.ErrorIs(t, err, ErrNoStream, none)
	}
}

func TestWrittenBytesAreReadAtOffsets(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 6, []byte("world")))
	text, complete := readAll(t, s, id, 6)
	require.Equal(t, "world", text)
	require.False(t, complete)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("hello ")))
	require.NoError(t, s.End(t.Context(), id, 11))
	for from := range int64(12) {
		text, complete := readAll(t, s, id, from)
		require.Equal(t, "hello world"[from:], text)
		require.True(t, complete)
	}
}

func TestOfAnOverlapTheFirstWriteCounts(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	for _, write := range []struct {
		from int64
		data string
	}{{2, "AAA"}, {2, "BBB"}, {0, "CCCCCCC"}, {4, "DDDDDD"}} {
		require.NoError(t, s.Write(t.Context(), id, write.from, []byte(write.data)))
		time.Sleep(20 * time.Millisecond) // the file system's clock has ticked then
	}
	text, _ := readAll(t, s, id, 0)
	require.Equal(t, "CCAAACCDDD", text)
}

func TestStoredBytesWinOverMarkers(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 2, []byte("ab")))
	require.NoError(t, s.Drop(t.Context(), id, Range{0, 5}))
	require.NoError(t, s.Write(t.Context(), id, 4, []byte("c"))) // it came after all
	require.NoError(t, s.End(t.Context(), id, 7))
	text, complete := readAll(t, s, id, 0)
	require.Equal(t, "..abc??", text)
	require.True(t, complete)
	state, err := s.State(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, State{Stored: Ranges{{2, 5}}, Dropped: Ranges{{0, 2}}, Missing: Ranges{{5, 7}}, Total: 7, Complete: true}, state)
}

func TestAGapHoldsAReaderForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		behind func(s *Store, id string) error
		want   string
	}{
		"before bytes":                   {func(s *Store, id string) error { return s.Write(t.Context(), id, 3, []byte("late")) }, "???late"},
		"before bytes that were dropped": {func(s *Store, id string) error { return s.Drop(t.Context(), id, Range{3, 5}) }, "???.."},
		"before the end":                 {func(s *Store, id string) error { return s.End(t.Context(), id, 3) }, "???"},
	} {
		s := replica(t, t.TempDir())
		id := created(t, s)
		require.NoError(t, test.behind(s, id), name)
		r := s.Follower(id, 0)
		// The first request times out, and the answer to the second asks for a pause.
		for _, since := range []time.Duration{0, 20 * time.Second, (20 + 37) * time.Second} {
			r.now = later(since)
			_, err := r.Next(t.Context())
			require.ErrorIs(t, err, ErrNotYet, "%s: %v", name, since)
		}
		r.now = later(gapWait)
		text, _ := drain(t, r)
		require.Equal(t, test.want, text, name)
	}
}

// A client sends the end of a stream after everything else.
func TestAReaderOfAnEndedStreamDoesNotWaitForAGap(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 3, []byte("abc")))
	text, complete := drain(t, s.Reader(id, 0))
	require.Empty(t, text, "the bytes before it may be on their way")
	require.False(t, complete)
	require.NoError(t, s.End(t.Context(), id, 8))
	text, complete = drain(t, s.Reader(id, 0))
	require.Equal(t, "???abc??", text)
	require.True(t, complete)
}

// A stream gets bytes every ten seconds, but never the lost ones.
func TestAGapHoldsNoReaderWhileOthersWrite(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	aged := &agedBucket{Bucket: s.bucket, age: map[string]time.Duration{}}
	s.bucket = aged
	for i := range int64(10) {
		require.NoError(t, s.Write(t.Context(), id, 3+i, []byte("x")))
		aged.age[rangeName(Range{3 + i, 4 + i})] = time.Duration(9-i) * 10 * time.Second
	}
	text, _ := drain(t, s.Follower(id, 0))
	require.Equal(t, "???xxxxxxxxxx", text)
}

// An agedBucket has objects that were written some time ago.
type agedBucket struct {
	storage.Bucket
	age map[string]time.Duration
}

// List implements storage.Bucket.
func (a *agedBucket) List(ctx context.Context, directory string) ([]storage.Object, error) {
	objects, err := a.Bucket.List(ctx, directory)
	for i, o := range objects {
		objects[i].Written = o.Written.Add(-a.age[o.Name])
	}
	return objects, err
}

// Each implements storage.Bucket.
func (a *agedBucket) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	list, err := a.List(ctx, directory)
	return passOn(list, err, each)
}

// Walk implements storage.Bucket.
func (a *agedBucket) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	return a.Bucket.Walk(ctx, directory, after, func(o storage.Object) bool {
		o.Written = o.Written.Add(-a.age[path.Base(o.Name)])
		return each(o)
	})
}

func passOn(objects []storage.Object, err error, each func(storage.Object) bool) error {
	for _, o := range objects {
		if !each(o) {
			break
		}
	}
	return err
}

func TestBytesSinceAReadersListingAreFound(t *testing.T) {
	for name, late := range map[string]func(s *Store, id string) error{
		"what was missing": func(*Store, string) error { return nil },
		"what was dropped": func(s *Store, id string) error { return s.Drop(t.Context(), id, Range{3, 6}) },
	} {
		s := replica(t, t.TempDir())
		id := created(t, s)
		require.NoError(t, s.Write(t.Context(), id, 0, []byte("abc")))
		require.NoError(t, late(s, id))
		require.NoError(t, s.Write(t.Context(), id, 6, []byte("ghi")))
		r := s.Reader(id, 0)
		_, err := r.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Write(t.Context(), id, 3, []byte("def")))
		r.now = later(2 * gapWait)
		text, _ := drain(t, r)
		require.Equal(t, "defghi", text, name)
	}
}

// A hookedBucket calls a function after it has listed a directory.
type hookedBucket struct {
	storage.Bucket
	after func(directory string)
}

// List implements storage.Bucket.
func (h *hookedBucket) List(ctx context.Context, directory string) ([]storage.Object, error) {
	objects, err := h.Bucket.List(ctx, directory)
	h.after(directory)
	return objects, err
}

// Each implements storage.Bucket.
func (h *hookedBucket) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	list, err := h.List(ctx, directory)
	return passOn(list, err, each)
}

// Walk implements storage.Bucket.
func (h *hookedBucket) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	err := h.Bucket.Walk(ctx, directory, after, each)
	h.after(directory)
	return err
}

func TestBytesThatAreStoredDuringAListingDoNotReadAsDropped(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	other, once := *s, sync.Once{}
	s.bucket = &hookedBucket{s.bucket, func(string) {
		once.Do(func() {
			require.NoError(t, other.Write(t.Context(), id, 0, []byte("hello")))
			require.NoError(t, other.Drop(t.Context(), id, Range{0, 10}))
		})
	}}
	text, _ := drain(t, s.Reader(id, 0))
	require.NotContains(t, text, "..........")
}

func TestAStreamHasOneEnd(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("abc")))
	require.ErrorIs(t, s.End(t.Context(), id, 2), ErrConflict)
	require.NoError(t, s.End(t.Context(), id, 5))
	require.NoError(t, s.End(t.Context(), id, 5))
	require.ErrorIs(t, s.End(t.Context(), id, 6), ErrConflict)
	_, err := s.Append(t.Context(), id, []byte("x"))
	require.ErrorIs(t, err, ErrEnded)
	require.NoError(t, s.Write(t.Context(), id, 3, []byte("de")), "what was under way may come")
	require.ErrorIs(t, s.Write(t.Context(), id, 5, []byte("f")), ErrEnded)
	require.ErrorIs(t, s.Drop(t.Context(), id, Range{4, 6}), ErrEnded)
	require.NoError(t, s.End(t.Context(), id, 5), "a repeated end succeeds, whatever was tried since")
	text, complete := readAll(t, s, id, 0)
	require.Equal(t, "abcde", text)
	require.True(t, complete)
}

func TestAnEmptyStreamEnds(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.End(t.Context(), id, 0))
	text, complete := readAll(t, s, id, 0)
	require.Empty(t, text)
	require.True(t, complete)
}

func TestConcurrentAppendsLoseNothing(t *testing.T) {
	directory := t.TempDir()
	id := created(t, replica(t, directory))
	var mu sync.Mutex
	want := map[int64]string{}
	var group errgroup.Group
	for i := range 3 {
		s := replica(t, directory)
		group.Go(func() error {
			for j := range 20 {
				data := fmt.Sprintf("<%d,%d>", i, j)
				from, err := s.Append(context.Background(), id, []byte(data))
				if err != nil {
					return err
				}
				mu.Lock()
				want[from] = data
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	text, _ := readAll(t, replica(t, directory), id, 0)
	for from, data := range want {
		require.Equal(t, data, text[from:from+int64(len(data))])
	}
	require.Len(t, want, 60)
}

// One client appends, the other writes at offsets.
func TestAppendsBesideWritesAtOffsetsLoseNothing(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	other, once := *s, sync.Once{}
	s.bucket = &hookedBucket{s.bucket, func(directory string) {
		if strings.Contains(directory, id) {
			once.Do(func() { require.NoError(t, other.Write(t.Context(), id, 0, []byte("PATCH"))) })
		}
	}}
	from, err := s.Append(t.Context(), id, []byte("appen"))
	require.NoError(t, err)
	text, _ := readAll(t, s, id, 0)
	require.Equal(t, "PATCH", text[:5])
	require.Equal(t, "appen", text[from:])
}

func TestAStreamDoesNotBecomeLongerThanOffsetsAre(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Drop(t.Context(), id, Range{0, MaxOffset}))
	_, err := s.Append(t.Context(), id, []byte("x"))
	require.ErrorIs(t, err, ErrEnded)
	require.NoError(t, s.End(t.Context(), id, MaxOffset))
}

// The cost of each listing of a stream.
func BenchmarkLayout(b *testing.B) {
	const pieces = 100_000
	data, drops := make([]piece, pieces), make([]piece, pieces)
	now := time.Now()
	for i := range int64(pieces) {
		r := Range{2 * (pieces - i), 2*(pieces-i) + 3}
		data[i] = piece{Range: r, object: r, written: now.Add(time.Duration(i))}
		drops[i] = piece{Range: Range{r.From, MaxOffset}, object: r, written: now}
	}
	for b.Loop() {
		mergeDrops(resolveOverlaps(slices.Clone(data)), union(slices.Clone(drops)))
	}
}

// A faultyBucket fails before or after it has written, like a replica that is killed.
type faultyBucket struct {
	storage.Bucket
	random *rand.Rand
}

var errKilled = errors.New("the replica was killed")

// Create implements storage.Bucket.
func (f *faultyBucket) Create(ctx context.Context, key string, content []byte) error {
	switch f.random.IntN(10) {
	case 0:
		return errKilled
	case 1:
		_ = f.Bucket.Create(ctx, key, content)
		return errKilled
	}
	return f.Bucket.Create(ctx, key, content)
}

// send sends a stream in ranges that overlap, twice and out of order, to any replica. It
// marks some ranges as dropped, although some of those have arrived.
func send(t *testing.T, random *rand.Rand, replicas []*Store, id string, data []byte) (dropped Ranges) {
	t.Helper()
	total := int64(len(data))
	var requests []func(s *Store) error
	for from := int64(0); from < total; {
		r := Range{from, min(total, from+1+random.Int64N(200))}
		switch random.IntN(8) {
		case 0:
			dropped = dropped.With(r)
			requests = append(requests, func(s *Store) error { return s.Drop(t.Context(), id, r) })
		case 1: // its answer was lost, and it is cut otherwise when it comes again
			early := Range{max(0, r.From-random.Int64N(50)), min(total, r.To+random.Int64N(50))}
			requests = append(requests, func(s *Store) error { return s.Write(t.Context(), id, early.From, data[early.From:early.To]) })
			fallthrough
		default:
			write := func(s *Store) error { return s.Write(t.Context(), id, r.From, data[r.From:r.To]) }
			requests = append(requests, write)
			if random.IntN(5) == 0 {
				requests = append(requests, write)
			}
		}
		from = r.To
	}
	random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	for _, request := range append(requests, func(s *Store) error { return s.End(t.Context(), id, total) }) {
		for {
			err := request(replicas[random.IntN(len(replicas))])
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errKilled)
		}
	}
	return dropped
}

func TestFaultsOnTheWayLeaveEachByteStoredOrDropped(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		directory := t.TempDir()
		id := created(t, replica(t, directory))
		var replicas []*Store
		for range 3 {
			s := replica(t, directory)
			s.bucket = &faultyBucket{s.bucket, random}
			replicas = append(replicas, s)
		}
		data := make([]byte, random.IntN(5000))
		for i := range data {
			data[i] = "abcdefgh\n"[random.IntN(9)]
		}
		total := int64(len(data))
		dropped := send(t, random, replicas, id, data)

		s := replica(t, directory)
		state, err := s.State(t.Context(), id)
		require.NoError(t, err)
		require.True(t, state.Complete)
		require.Equal(t, total, state.Total)
		require.Empty(t, state.Missing)
		require.Equal(t, total, state.Stored.Len()+state.Dropped.Len(), "stored and dropped are disjoint")
		for _, r := range state.Dropped {
			require.Equal(t, dropped, slices.Clone(dropped).With(r), "nothing was dropped but what its sender said")
		}
		want := bytes.Clone(data)
		for _, r := range state.Dropped {
			copy(want[r.From:r.To], bytes.Repeat([]byte("."), int(r.Len())))
		}
		for range 5 {
			from := random.Int64N(total + 1)
			text, complete := readAll(t, s, id, from)
			require.Equal(t, string(want[from:]), text)
			require.True(t, complete)
		}
	}
}

func TestAWriteThatIsTooLargeIsRefused(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 0, make([]byte, MaxWrite)))
	require.ErrorContains(t, s.Write(t.Context(), id, 0, make([]byte, MaxWrite+1)), "at most")
}

func TestADamagedObjectIsAnError(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.bucket.Create(t.Context(), directory(id)+"data/"+rangeName(Range{0, 5}), []byte("no gzip")))
	_, err := s.Reader(id, 0).Next(t.Context())
	require.ErrorContains(t, err, "reading bytes 0 to 4 of stream")
}

func TestForeignObjectsAreIgnored(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	for _, name := range []string{"x", "5", "5-", "-5", "5-0", "-1-5", "5--1", "7fffffffffffffff-1", "0-fffffff"} {
		require.NoError(t, s.bucket.Create(t.Context(), directory(id)+"data/"+name, nil))
	}
	text, _ := readAll(t, s, id, 0)
	require.Empty(t, text)
}
