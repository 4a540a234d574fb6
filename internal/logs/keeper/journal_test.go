// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

func TestReplicasThatLiveHaveAsManyPartitionsAsEachOther(t *testing.T) {
	now := time.Now()
	for count := 1; count <= 20; count++ {
		var pages []listedPage
		for i := range count {
			name := pageName{fmt.Sprintf("replica%02d", i), 7}
			pages = append(pages, listedPage{name, false, "", now.Add(-time.Minute)})
		}
		pages = append(pages,
			listedPage{pageName{"crashed", 1}, false, "", now.Add(-time.Hour)}, listedPage{pageName{"left", 1}, true, "", now}, listedPage{pageName{"future", 1}, false, "", now.Add(time.Hour)})
		next := 0
		for i := range count {
			k := New(nil, nil, slog.New(slog.DiscardHandler), newRegistry())
			k.journal.replica = pages[i].replica
			first, end := k.share(pages, now)
			require.Equal(t, next, first)
			require.Contains(t, []int{partitions / count, partitions/count + 1}, end-first)
			next = end
		}
		require.Equal(t, partitions, next)
	}
}

func TestAPageIsKnownByItsName(t *testing.T) {
	for name, want := range map[string]listedPage{
		"abc-0000000a":      {pageName: pageName{"abc", 10}},
		"abc-0000000a-left": {pageName: pageName{"abc", 10}, left: true},
		"abc-a":             {}, "abc": {}, "-00000001": {}, "abc-00000000": {}, "abc-0000000a-right": {},
	} {
		p, ok := parsePage(storage.Object{Name: name})
		require.Equal(t, want.replica != "", ok, name)
		if ok {
			require.Equal(t, want.pageName, p.pageName)
			require.Equal(t, want.left, p.left)
			require.Equal(t, journalDirectory+name, p.key)
		}
	}
}

// What two replicas write counts at both, once, whoever has swept meanwhile.
func TestEachReplicaCountsWhatTheOthersHaveNoted(t *testing.T) {
	h := open(t)
	h.Alone = false
	other := New(h.store, h.bucket, h.logger, newRegistry())
	other.Use(&DefaultLimits)
	id := h.stream("tenant", "pod", 1)
	require.NoError(t, h.Sweep(t.Context()))
	require.NoError(t, other.Sweep(t.Context()))
	before := h.usage.of("tenant")
	require.Equal(t, before, other.usage.of("tenant"))
	h.RecordUsage("tenant", id, 1000, 0)
	other.RecordUsage("tenant", id, 10, 0)
	require.Equal(t, before.bytes+1000, h.usage.of("tenant").bytes, "what the other one has stored isn't noted yet")
	for range 2 {
		require.NoError(t, h.Sweep(t.Context()))
		require.NoError(t, other.Sweep(t.Context()))
	}
	require.Equal(t, before.bytes+1010, h.usage.of("tenant").bytes)
	require.Equal(t, before.bytes+1010, other.usage.of("tenant").bytes)
	other.Leave(t.Context())
	require.NoError(t, h.Sweep(t.Context()))
	require.Len(t, h.own(), partitions)
	require.Equal(t, before.bytes+1010, h.usage.of("tenant").bytes)
}
