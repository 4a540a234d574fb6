// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// A testKeeper is a keeper with a store whose files can be made older.
type testKeeper struct {
	*Keeper
	t         *testing.T
	directory string
	store     *streams.Store
}

func open(t *testing.T) *testKeeper {
	t.Helper()
	directory := t.TempDir()
	bucket := storagetest.OpenFiles(t, directory)
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	keeper := New(store, bucket, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	keeper.known.Store(true)
	keeper.Alone = true
	return &testKeeper{keeper, t, directory, store}
}

// stream creates a stream with some bytes, each written on its own.
func (h *testKeeper) stream(namespace, pod string, bytes int) (id string) {
	h.t.Helper()
	store := h.store.WithAccounting(namespace, func(bytes, made int64) { h.RecordUsage(namespace, "", bytes, made) })
	id, err := store.Create(h.t.Context(), streams.Source{Namespace: namespace, Pod: pod, PodUID: pod, Name: "stdout", Labels: map[string]string{"tekton.dev/taskRun": "run"}})
	require.NoError(h.t, err)
	for i := range int64(bytes) {
		require.NoError(h.t, store.Write(h.t.Context(), id, i, []byte("x")))
	}
	return id
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

// damage overwrites a byte of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[len(content)/2] ^= 0xff
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// files returns the files below a directory.
func (h *testKeeper) files(below string) (list []string) {
	require.NoError(h.t, filepath.WalkDir(filepath.Join(h.directory, below), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}))
	return list
}

// age makes all files older.
func (h *testKeeper) age(by time.Duration) {
	for _, path := range h.files("") {
		info, err := os.Stat(path)
		require.NoError(h.t, err)
		require.NoError(h.t, os.Chtimes(path, time.Time{}, info.ModTime().Add(-by)))
	}
}

func (h *testKeeper) look() {
	h.t.Helper()
	h.forgetLedgers() // as if that much time had passed
	require.NoError(h.t, h.Sweep(h.t.Context()))
}

// forgetLedgers has the next sweep list all streams, and know none.
func (h *testKeeper) forgetLedgers() {
	for _, p := range h.partitions {
		p.forget()
	}
	for _, path := range h.files("ledgers") {
		key, err := filepath.Rel(h.directory, path)
		require.NoError(h.t, err)
		require.NoError(h.t, h.bucket.Delete(h.t.Context(), key))
	}
}

// edit changes the record of a stream, and returns it.
func (h *testKeeper) edit(id string, change func(*record)) (found record) {
	h.t.Helper()
	stream, ok := parseID(id)
	require.True(h.t, ok)
	p := h.partitions[stream.partition()]
	r, err := readLedger(p.ledger)
	require.NoError(h.t, err)
	w := newLedgerWriter()
	require.NoError(h.t, w.begin(r.head))
	for {
		one, of, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(h.t, err)
		if one == stream {
			change(&of)
			found = of
		}
		require.NoError(h.t, w.add(one, of))
	}
	p.ledger, err = w.end()
	require.NoError(h.t, err)
	p.next = time.Time{}
	return found
}

func (h *testKeeper) record(id string) record { return h.edit(id, func(*record) {}) }

// run lets time pass in which sweeps run.
func (h *testKeeper) run(duration time.Duration) {
	h.t.Helper()
	const step = 5 * time.Hour
	for ; duration > 0; duration -= step {
		h.age(step)
		h.look()
	}
}

func TestAStreamIsJoinedAndDeletedInTheEnd(t *testing.T) {
	h := open(t)
	id := h.stream("tenant", "pod", 50)
	h.look()
	require.Len(t, h.files("streams/"+id+"/data"), 50, "they are too young")
	for range 3 {
		h.age(11 * time.Minute)
		h.look()
	}
	require.Empty(t, h.files("streams/"+id+"/data"))
	require.Len(t, h.files("streams/"+id), 2, "a joined object, and meta")
	require.InDelta(t, 1, testutil.ToFloat64(h.metrics.joined), 0)
	require.InDelta(t, 50, testutil.ToFloat64(h.metrics.deleted), 0)

	h.run(31 * 24 * time.Hour)
	require.Equal(t, amount{}, h.usage.of("tenant"))
	h.run(26 * time.Hour)
	require.InDelta(t, 1, testutil.ToFloat64(h.metrics.removed), 0)
	left, err := os.ReadDir(h.directory)
	require.NoError(t, err)
	require.Len(t, left, 4, "the key, the last sweeps, the journal, and where files are written: %v", left)
}

func TestAStreamThatIsWrittenAgainIsInspectedAgain(t *testing.T) {
	h := open(t)
	id := h.stream("tenant", "pod", 1)
	h.age(4 * 24 * time.Hour)
	require.NoError(t, h.Sweep(t.Context()), "the stream has been idle for long")
	store := h.store.WithAccounting("tenant", func(bytes, made int64) { h.RecordUsage("tenant", id, bytes, made) })
	write := func(from, to int64) {
		for at := from; at < to; at++ {
			require.NoError(t, store.Write(t.Context(), id, at, []byte("x")))
		}
		h.age(11 * time.Minute)
		for range 2 {
			require.NoError(t, h.Sweep(t.Context()))
			require.Greater(t, h.usage.of("tenant").bytes, to*streams.ObjectOverhead, "the new bytes are counted")
		}
	}
	write(1, 51)
	require.Empty(t, h.files("streams/"+id+"/joined"), "too little is new")
	require.Equal(t, int64(50), h.record(id).written)
	write(51, 151)
	require.Len(t, h.files("streams/"+id+"/joined"), 1)
	require.Zero(t, h.record(id).written)
}

// Its record knows the last write of its last inspection, which may be an hour ago.
func TestAStreamThatWasWrittenExpiresByItsLastWrite(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"retention": "2h"})
	require.NoError(t, err)
	h.Use(limits)
	id := h.stream("tenant", "pod", 1)
	require.NoError(t, h.Sweep(t.Context()))
	store := h.store.WithAccounting("tenant", func(bytes, made int64) { h.RecordUsage("tenant", id, bytes, made) })
	require.NoError(t, store.Write(t.Context(), id, 1, []byte("x")))
	require.NoError(t, h.Sweep(t.Context()))
	require.Equal(t, int64(1), h.record(id).written)
	h.age(3 * time.Hour)
	threeHoursAgo := func(r *record) { r.last = r.last.Add(-3 * time.Hour) } // as if that much time had passed
	h.edit(id, threeHoursAgo)
	require.NoError(t, store.Write(t.Context(), id, 2, []byte("x")))
	require.NoError(t, h.Sweep(t.Context()))
	_, err = h.store.Source(t.Context(), id)
	require.NoError(t, err, "it has just been written")
	h.age(3 * time.Hour)
	h.edit(id, threeHoursAgo)
	require.NoError(t, h.Sweep(t.Context()))
	_, err = h.store.Source(t.Context(), id)
	require.ErrorIs(t, err, streams.ErrNoStream)
}

func TestEachNamespaceHasItsRetention(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"retention": "1h", "retention.audit": "0"})
	require.NoError(t, err)
	h.Use(limits)
	gone, stays := h.stream("tenant", "a", 1), h.stream("audit", "b", 0)
	h.age(2 * time.Hour)
	h.look()
	_, err = h.store.Source(t.Context(), gone)
	require.ErrorIs(t, err, streams.ErrNoStream)
	_, err = h.store.Source(t.Context(), stays)
	require.NoError(t, err)
}

func TestUsageIsWhatTheSweepHasFoundAndWhatCameSince(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"quota.tenant": "20k", "streams.tenant": "2"})
	require.NoError(t, err)
	h.Use(limits)
	require.NoError(t, h.CheckBytes("tenant"))
	h.stream("tenant", "a", 20)
	require.ErrorIs(t, h.CheckBytes("tenant"), ErrQuota)
	require.NoError(t, h.CheckMarker("tenant"))
	require.NoError(t, h.CheckStream("tenant"))
	require.NoError(t, h.CheckBytes("another"))
	before := h.usage.of("tenant")
	unlimited, err := ReadLimits(map[string]string{"quota.tenant": "0"})
	require.NoError(t, err)
	h.Use(unlimited) // so that the sweep makes no room
	h.look()
	h.Use(limits)
	require.InDelta(t, before.bytes, h.usage.of("tenant").bytes, 3000, "entries of the index aren't counted again")
	require.Equal(t, int64(1), h.usage.of("tenant").streams)
	require.ErrorIs(t, h.CheckBytes("tenant"), ErrQuota)
	h.stream("tenant", "b", 20)
	require.ErrorIs(t, h.CheckStream("tenant"), ErrStreams)
	require.ErrorIs(t, h.CheckMarker("tenant"), ErrQuota, "twice the quota")
	require.NoError(t, h.CheckSurplusStream("tenant"))
	h.stream("tenant", "c", 0)
	require.NoError(t, h.CheckSurplusStream("tenant"))
	h.stream("tenant", "d", 0)
	require.ErrorIs(t, h.CheckSurplusStream("tenant"), ErrStreams, "twice as many")
	require.NoError(t, h.CheckSurplusStream("another"))
}

func TestNewLimitsApplyAndInvalidOnesAreReported(t *testing.T) {
	h := open(t)
	text := &synced.Buffer{}
	h.logger = slog.New(slog.NewTextHandler(text, nil))
	maps := fake.NewClientset().CoreV1().ConfigMaps("entrypointer-logs")
	h.known.Store(false)
	require.NoError(t, h.readLimits(t.Context(), maps), "without a ConfigMap at the start")
	require.ErrorContains(t, h.readLimits(t.Context(), maps), "not found", "a ConfigMap that is deleted leaves its limits")
	cm, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap}, Data: map[string]string{"quota": "5"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, h.readLimits(t.Context(), maps))
	require.Equal(t, int64(5), h.limits.Load().Of("tenant").Quota)
	cm.Data["quota"] = "much"
	_, err = maps.Update(t.Context(), cm, metav1.UpdateOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed := make(chan error)
	go func() { followed <- h.Follow(ctx, maps) }()
	require.Eventually(t, func() bool { return strings.Contains(text.String(), `\"much\" isn't a quantity`) }, 30*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-followed)
	require.Equal(t, int64(5), h.limits.Load().Of("tenant").Quota)
	require.InDelta(t, 1, testutil.ToFloat64(h.metrics.configFaulty), 0)
}
