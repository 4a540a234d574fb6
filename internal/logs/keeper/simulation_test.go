// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

var errBroken = errors.New("the storage is broken, or the replica has crashed")

// A flaky bucket fails before or after any call, and always after a crash.
type flaky struct {
	storage.Bucket
	mu      sync.Mutex
	random  *rand.Rand
	rate    int // one of so many calls fails, 0 for none
	crashed bool
}

func (f *flaky) fails() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed || f.rate > 0 && f.random.IntN(f.rate) == 0 {
		return errBroken
	}
	return nil
}

func (f *flaky) call(do func() error) error {
	if err := f.fails(); err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond) // others continue
	return errors.Join(do(), f.fails())
}

// Create implements storage.Bucket.
func (f *flaky) Create(ctx context.Context, key string, content []byte) error {
	return f.call(func() error { return f.Bucket.Create(ctx, key, content) })
}

// Read implements storage.Bucket.
func (f *flaky) Read(ctx context.Context, key string) (content []byte, err error) {
	err = f.call(func() error { content, err = f.Bucket.Read(ctx, key); return err })
	return content, err
}

// List implements storage.Bucket.
func (f *flaky) List(ctx context.Context, directory string) (list []storage.Object, err error) {
	err = f.call(func() error { list, err = f.Bucket.List(ctx, directory); return err })
	return list, err
}

// Each implements storage.Bucket.
func (f *flaky) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	return f.call(func() error { return f.Bucket.Each(ctx, directory, each) })
}

// Walk implements storage.Bucket.
func (f *flaky) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	return f.call(func() error { return f.Bucket.Walk(ctx, directory, after, each) })
}

// Scan implements storage.Bucket.
func (f *flaky) Scan(ctx context.Context, prefix string, each func(storage.Object) bool) error {
	return f.call(func() error { return f.Bucket.Scan(ctx, prefix, each) })
}

// Delete implements storage.Bucket.
func (f *flaky) Delete(ctx context.Context, key string) error {
	return f.call(func() error { return f.Bucket.Delete(ctx, key) })
}

// DeleteAll implements storage.Bucket: after a failure, some objects are left.
func (f *flaky) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := f.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// A simulatedStream is what was stored of a stream, as its pod knows it.
type simulatedStream struct {
	source streams.Source
	id     string
	text   strings.Builder
	parts  []simulatedPart
	ended  bool
	erased int64 // the offset up to which it was deleted by a user
}

type simulatedPart struct {
	from, to int64
	at       time.Time // by the right clock
}

func (p simulatedPart) isNew() bool { return time.Since(p.at) < simulatedRetention-time.Minute }

// A simulation is some replicas that share a bucket, and pods that write.
type simulation struct {
	t          *testing.T
	random     *rand.Rand
	memory     *storagetest.Memory
	skew       time.Duration // of the storage's clock
	wrongSince time.Time
	plain      *streams.Store
	replicas   []*simulatedReplica
	streams    []*simulatedStream
	limits     *Limits
	held       map[string]bool // pods
	rate       int
}

type simulatedReplica struct {
	*Keeper
	bucket *flaky
}

const simulatedRetention = 3 * 24 * time.Hour

func (s *simulation) start() *simulatedReplica {
	bucket := &flaky{Bucket: s.memory, random: rand.New(rand.NewPCG(s.random.Uint64(), 1))}
	store, err := streams.Open(s.t.Context(), bucket)
	require.NoError(s.t, err)
	bucket.rate = s.rate
	r := &simulatedReplica{New(store, bucket, slog.New(slog.DiscardHandler), prometheus.NewRegistry()), bucket}
	r.Use(s.limits)
	return r
}

// act lets something happen.
func (s *simulation) act() {
	switch s.random.IntN(12) {
	case 0, 1:
		s.create()
	case 2:
		if one := s.any(); one != nil && !one.ended {
			require.NoError(s.t, s.plain.End(s.t.Context(), one.id, int64(one.text.Len())))
			one.ended = true
		}
	case 3:
		if s.random.IntN(3) == 0 {
			s.hold()
		}
	case 4:
		if one := s.any(); one != nil && s.random.IntN(5) == 0 && !s.held[one.source.Pod] {
			_, err := s.plain.Erase(s.t.Context(), one.id, one.source)
			require.NoError(s.t, err)
			one.erased = int64(one.text.Len())
		}
	default:
		for range 1 + s.random.IntN(20) {
			s.write()
		}
	}
}

func (s *simulation) any() *simulatedStream {
	if len(s.streams) == 0 {
		return nil
	}
	return s.streams[s.random.IntN(len(s.streams))]
}

func (s *simulation) anyReplica() *simulatedReplica {
	return s.replicas[s.random.IntN(len(s.replicas))]
}

func (s *simulation) create() {
	pod := fmt.Sprint("pod", len(s.streams))
	source := streams.Source{Namespace: []string{"short", "long"}[s.random.IntN(2)], Pod: pod, PodUID: pod, Name: "stdout", Labels: map[string]string{"tekton.dev/taskRun": pod}}
	of := &simulatedStream{source: source}
	var meta, index int64
	id, err := s.plain.WithAccounting(source.Namespace, func(bytes, made int64) {
		if made > 0 {
			meta += bytes
		} else {
			index += bytes
		}
	}).Create(s.t.Context(), source)
	require.NoError(s.t, err)
	s.anyReplica().RecordStream(source.Namespace, id, meta, index)
	of.id = id
	s.streams = append(s.streams, of)
}

// write writes to a stream, at any replica, which makes the stream again if it is gone.
func (s *simulation) write() {
	of := s.any()
	if of == nil || of.ended {
		return
	}
	if _, err := s.plain.Source(s.t.Context(), of.id); errors.Is(err, streams.ErrNoStream) {
		if of.erased == 0 {
			return // its pod has ended long ago
		}
		_, err = s.plain.Create(s.t.Context(), of.source)
		require.NoError(s.t, err)
	}
	part := fmt.Sprintf("%d: %s\n", s.random.Uint32(), strings.Repeat("x", s.random.IntN(50)))
	replica, from := s.anyReplica(), int64(of.text.Len())
	store := s.plain.WithAccounting(of.source.Namespace, func(bytes, made int64) { replica.RecordUsage(of.source.Namespace, of.id, bytes, made) })
	require.NoError(s.t, store.Write(s.t.Context(), of.id, from, []byte(part)))
	of.text.WriteString(part)
	of.parts = append(of.parts, simulatedPart{from, from + int64(len(part)), time.Now()})
}

func (s *simulation) hold() {
	one := s.any()
	if one == nil {
		return
	}
	scope := streams.HoldScope{Pod: one.source.Pod}
	if s.held[one.source.Pod] {
		_, err := s.plain.Release(s.t.Context(), one.source.Namespace, scope)
		require.NoError(s.t, err)
		delete(s.held, one.source.Pod)
		one.parts = nil // it may go now
		return
	}
	if _, err := s.plain.Source(s.t.Context(), one.id); err == nil {
		require.NoError(s.t, s.plain.Hold(s.t.Context(), one.source.Namespace, scope, "jane"))
		s.held[one.source.Pod] = true
		one.parts = slices.DeleteFunc(one.parts, func(p simulatedPart) bool { return !p.isNew() }) // they may be gone
	}
}

// replace crashes or stops a replica, and another one comes.
func (s *simulation) replace() {
	if s.random.IntN(3) > 0 {
		return
	}
	at := s.random.IntN(len(s.replicas))
	switch s.random.IntN(3) {
	case 0:
		s.replicas[at].Leave(s.t.Context())
		s.replicas[at] = s.start()
	case 1:
		s.replicas[at].bucket.crashed = true
		s.replicas[at] = s.start()
	default:
		if len(s.replicas) > 1 {
			s.replicas = slices.Delete(s.replicas, at, at+1)
		} else {
			s.replicas = append(s.replicas, s.start(), s.start())
		}
	}
}

// sweep has all replicas sweep, and something else happen at the same time.
func (s *simulation) sweep(acts int) {
	var running sync.WaitGroup
	running.Go(func() {
		for range acts {
			time.Sleep(time.Duration(s.random.Int64N(int64(2 * time.Second))))
			s.act()
		}
	})
	for _, r := range s.replicas {
		running.Go(func() {
			err := r.Sweep(s.t.Context())
			if err != nil {
				require.ErrorIs(s.t, err, errBroken)
			}
		})
	}
	running.Wait()
}

// check reads what has to be there: all that was written within the retention, or is held.
func (s *simulation) check() {
	for _, of := range s.streams {
		var text strings.Builder
		r := s.plain.Reader(of.id, 0)
		at := make([]byte, of.text.Len())
		for {
			part, err := r.Next(s.t.Context())
			if errors.Is(err, io.EOF) || errors.Is(err, streams.ErrNotYet) {
				break
			}
			require.NoError(s.t, err)
			if part.Data != nil {
				copy(at[part.From:part.To], part.Data)
			}
		}
		text.Write(at)
		for _, part := range of.parts {
			isNew := part.isNew() || of.source.Namespace == "long" || s.held[of.source.Pod]
			if !isNew || part.from < of.erased {
				continue
			}
			require.Equal(s.t, of.text.String()[part.from:part.to], text.String()[part.from:part.to], "bytes %d to %d of %s, written %v ago, erased up to %d", part.from, part.to, of.source.Pod, time.Since(part.at), of.erased)
		}
		require.Empty(s.t, strings.Trim(text.String()[:of.erased], "\x00"), "erased bytes are gone")
	}
}

// setClock sets the clock of the storage ahead sometimes, for less than the doubt lasts.
func (s *simulation) setClock() {
	switch {
	case s.skew == 0 && s.random.IntN(60) == 0:
		s.skew, s.wrongSince = time.Duration(s.random.Int64N(int64(9*24*time.Hour))), time.Now()
	case s.random.IntN(15) == 0 || time.Since(s.wrongSince) > 60*time.Hour:
		s.skew = 0
	}
}

// stored returns how much the namespaces have in the bucket.
func (s *simulation) stored() amounts {
	found := amounts{}
	for digit := range partitions {
		require.NoError(s.t, s.plain.EachInventory(s.t.Context(), fmt.Sprintf("%x", digit), func(of *streams.Inventory) bool {
			source, err := s.plain.Source(s.t.Context(), of.ID)
			if errors.Is(err, streams.ErrNoStream) {
				return true // deleted, or erased
			}
			require.NoError(s.t, err)
			is, err := s.plain.Inspect(s.t.Context(), of.ID)
			require.NoError(s.t, err)
			found.add(source.Namespace, amount{is.Bytes + streams.IndexBytes(source), 1})
			return true
		}))
	}
	return found
}

func simulate(t *testing.T, seed uint64) {
	s := &simulation{t: t, random: rand.New(rand.NewPCG(seed, 2)), held: map[string]bool{}, rate: 150}
	s.memory = storagetest.NewMemory(func() time.Time { return time.Now().Add(s.skew) })
	var err error
	s.plain, err = streams.Open(t.Context(), s.memory)
	require.NoError(t, err)
	s.limits, err = ReadLimits(map[string]string{"retention": "3d", "retention.long": "0"})
	require.NoError(t, err)
	for range 1 + s.random.IntN(4) {
		s.replicas = append(s.replicas, s.start())
	}
	for range 150 {
		if s.random.IntN(6) == 0 {
			s.replace()
		}
		s.setClock()
		time.Sleep(time.Duration(s.random.Int64N(int64(2 * time.Hour))))
		s.sweep(s.random.IntN(8))
		s.check()
	}
	s.skew, s.rate = 0, 0
	for _, r := range s.replicas {
		r.bucket.rate = 0
	}
	for range 100 { // until no doubt about the clock is left, and nothing is due
		time.Sleep(5 * time.Hour)
		s.sweep(0)
	}
	s.check()
	for range 2 {
		time.Sleep(5 * time.Minute)
		s.sweep(0)
	}
	want := s.stored()
	for _, of := range s.streams {
		_, err := s.plain.Source(t.Context(), of.id)
		if of.source.Namespace == "short" && !s.held[of.source.Pod] {
			require.ErrorIs(t, err, streams.ErrNoStream, "%s has expired", of.source.Pod)
		}
	}
	owned := 0
	for _, r := range s.replicas {
		owned += len(r.own())
		for _, namespace := range slices.Sorted(maps.Keys(want)) {
			require.Equal(t, want[namespace], r.usage.of(namespace), "of %s", namespace)
		}
	}
	require.Equal(t, partitions, owned, "each partition is that of one replica")
}

func TestReplicasThatCrashLoseNothingAndKnowHowMuchIsStored(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}
