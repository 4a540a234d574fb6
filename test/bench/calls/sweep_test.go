// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/test/markdown"
)

const (
	sweepReplicas = 4
	// latency is how long a call takes, by the simulated clock.
	latency = 20 * time.Millisecond
	// maxSweep is how long the first sweep over a million streams may take.
	maxSweep = 15 * time.Minute
)

// An archive is a bucket with many streams that have ended, of four objects each, which
// aren't in memory. What else is written is in a bucket.
type archive struct {
	*bucket
	ids     [][16]byte // sorted
	written time.Time
}

func newArchive(count int) *archive {
	a := &archive{bucket: newBucket(), ids: make([][16]byte, count), written: time.Now().Add(-48 * time.Hour)}
	random := rand.NewChaCha8([32]byte{1})
	for i := range a.ids {
		_, _ = random.Read(a.ids[i][:]) // never fails
	}
	slices.SortFunc(a.ids, func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
	return a
}

func (a *archive) tally(add tally) {
	time.Sleep(latency)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count = a.count.plus(add, 1)
}

// objects are those of each stream: two full joined ones.
var archived = []storage.Object{
	{Name: "end", Size: 7}, {Name: "joined/0000000000000000-400000", Size: 400 << 10}, {Name: "joined/0000000000400000-400000", Size: 400 << 10}, {Name: "meta", Size: 130},
}

// Scan implements storage.Bucket.
func (a *archive) Scan(ctx context.Context, prefix string, each func(storage.Object) bool) error {
	digit, is := strings.CutPrefix(prefix, "streams/")
	if !is {
		time.Sleep(latency)
		return a.bucket.Scan(ctx, prefix, each)
	}
	in := 0
	for _, id := range a.ids {
		text := hex.EncodeToString(id[:])
		if !strings.HasPrefix(text, digit) {
			continue
		}
		for _, o := range archived {
			if in%page == 0 {
				a.tally(tally{lists: 1})
			}
			in++
			o.Name, o.Written = "streams/"+text+"/"+o.Name, a.written
			if !each(o) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// Read implements storage.Bucket.
func (a *archive) Read(ctx context.Context, key string) ([]byte, error) {
	id, is := strings.CutPrefix(key, "streams/")
	if !is {
		time.Sleep(latency)
		return a.bucket.Read(ctx, key)
	}
	a.tally(tally{gets: 1})
	id, _, _ = strings.Cut(id, "/")
	return json.Marshal(streams.Source{Namespace: fmt.Sprint("tenant-", id[30:]), Pod: id, PodUID: id, Name: "stdout"})
}

var errChanged = errors.New("the streams need no change")

// Create implements storage.Bucket.
func (a *archive) Create(ctx context.Context, key string, content []byte) error {
	if strings.HasPrefix(key, "streams/") {
		return errChanged
	}
	time.Sleep(latency)
	return a.bucket.Create(ctx, key, content)
}

// Each implements storage.Bucket.
func (a *archive) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	time.Sleep(latency)
	return a.bucket.Each(ctx, directory, each)
}

// Walk implements storage.Bucket.
func (a *archive) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	if strings.HasPrefix(directory, "streams") {
		return errChanged
	}
	time.Sleep(latency)
	return a.bucket.Walk(ctx, directory, after, each)
}

// A swept is what a sweep of all replicas took.
type swept struct {
	took  time.Duration
	calls tally
	heap  int64 // bytes that each replica has in memory at most, as far as they are in use
}

// sweepAll has new replicas sweep at the same time.
func sweepAll(t *testing.T, a *archive) (did swept) {
	t.Helper()
	limits, err := keeper.ReadLimits(map[string]string{"quota": "0", "streams": "0"})
	require.NoError(t, err)
	before, began := a.counted(), time.Now()
	var keepers []*keeper.Keeper
	heap := liveHeap()
	for range sweepReplicas {
		store, err := streams.Open(t.Context(), a)
		require.NoError(t, err)
		k := keeper.New(store, a, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		k.Use(limits)
		keepers = append(keepers, k)
	}
	var running sync.WaitGroup
	for _, k := range keepers {
		running.Go(func() {
			if err := k.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	for waits := true; waits; {
		select {
		case <-ended:
			did.took, waits = time.Since(began), false
		case <-time.After(10*time.Second + 7*time.Millisecond): // while all wait for the bucket
		}
		did.heap = max(did.heap, liveHeap()-heap)
	}
	did.calls = a.counted().plus(before, -1)
	did.heap /= sweepReplicas
	for _, k := range keepers {
		k.Leave(t.Context())
	}
	return did
}

func liveHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// The first sweep over a million streams takes less than a quarter of an hour, and what it has
// found outlives the replicas. With -update, there are a million streams.
func TestTheFirstSweepOverMillionsOfStreamsIsFastAndTheLastFullOneForHours(t *testing.T) {
	count := 40_000
	if *update {
		count = 1_000_000
	}
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(count)
		first := sweepAll(t, a)
		time.Sleep(10 * time.Minute)
		again := sweepAll(t, a)
		time.Sleep(7 * time.Hour)
		full := sweepAll(t, a)
		var table strings.Builder
		fmt.Fprintln(&table, "| sweep of four replicas over "+fmt.Sprint(count)+" streams | takes | PUT | LIST | GET | dollars | memory in use, each |")
		fmt.Fprintln(&table, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
		for _, row := range []struct {
			what string
			swept
		}{{"the first one", first}, {"the next one, after all replicas were restarted", again}, {"the one that lists all, every 6 hours", full}} {
			fmt.Fprintf(&table, "| %s | %v | %.0f | %.0f | %.0f | %.4f | %.1f MiB |\n", row.what, row.took.Round(time.Second/10), row.calls.puts, row.calls.lists, row.calls.gets, row.calls.dollars(), float64(row.heap)/(1<<20))
		}
		t.Log("\n" + table.String())
		scale := 1e6 / float64(count)
		require.Less(t, time.Duration(float64(first.took)*scale), maxSweep)
		require.Less(t, first.calls.dollars()*scale, 1.)
		require.Less(t, again.calls.puts+again.calls.lists+again.calls.gets, 300., "it goes on from the ledgers")
		require.Less(t, again.took, 5*time.Second)
		require.Less(t, full.calls.gets, 300., "it knows the namespaces")
		require.Less(t, first.heap, int64(100<<20))
		if *update {
			require.NoError(t, markdown.ReplaceSection("../../../docs/benchmarks.md", "sweeps", table.String()))
		}
	})
}
