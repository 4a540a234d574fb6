// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

func TestANamespaceAtItsQuotaComesBackAtTheCostOfWhoPrintsMost(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"quota.tenant": "150k"})
	require.NoError(t, err)
	h.Use(limits)
	quiet, other := h.stream("tenant", "quiet", 5), h.stream("another", "pod", 5)
	loud := h.stream("tenant", "loud", 200)
	require.ErrorIs(t, h.CheckBytes("tenant"), ErrQuota)
	h.look()
	require.NoError(t, h.CheckBytes("tenant"), "the sweep has made room")
	used := h.usage.of("tenant").bytes
	require.LessOrEqual(t, used, int64(150_000*roomBelow/100+2*streams.ObjectOverhead))
	require.Greater(t, used, int64(150_000*roomBelow/100-3*streams.ObjectOverhead), "no more than needed is deleted")
	for id, length := range map[string]int64{quiet: 5, other: 5} {
		state, err := h.store.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, streams.Ranges{{From: 0, To: length}}, state.Stored)
	}
	state, err := h.store.State(t.Context(), loud)
	require.NoError(t, err)
	require.Len(t, state.Deleted, 1)
	require.Equal(t, streams.Ranges{{From: state.Deleted[0].To, To: 200}}, state.Stored, "its newest bytes are there")
	require.Empty(t, state.Missing)
	h.look()
	again, err := h.store.State(t.Context(), loud)
	require.NoError(t, err)
	require.Equal(t, state, again, "there is room now")
}

func TestARefusalBecauseOfTheQuotaHasTheNextSweepBeginSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		limits, err := ReadLimits(map[string]string{"quota.tenant": "50k", "interval": "100s"})
		require.NoError(t, err)
		h.limits.Store(limits)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		synctest.Wait()
		h.stream("tenant", "loud", 60)
		require.ErrorIs(t, h.CheckBytes("tenant"), ErrQuota)
		time.Sleep(15 * time.Second) // on the test's clock
		synctest.Wait()
		require.NoError(t, h.CheckBytes("tenant"))
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestAsManyWholeObjectsAreDeletedAsTheRoomNeeds(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"quota.tenant": "400k"})
	require.NoError(t, err)
	h.Use(limits)
	var ids []string
	for i := range 20 {
		id, err := h.store.Create(t.Context(), streams.Source{Namespace: "tenant", Pod: fmt.Sprint("pod", i), PodUID: fmt.Sprint(i), Name: "stdout"})
		require.NoError(t, err)
		random := make([]byte, 20_000) // one object, which nothing can cut
		_, _ = rand.Read(random)
		require.NoError(t, h.store.Write(t.Context(), id, 0, random))
		ids = append(ids, id)
	}
	h.look()
	require.NoError(t, h.CheckBytes("tenant"))
	whole := 0
	for _, id := range ids {
		state, err := h.store.State(t.Context(), id)
		require.NoError(t, err)
		if state.Deleted == nil {
			whole++
		}
	}
	require.Less(t, whole, 20)
	require.Greater(t, whole, 13)
}

func TestWhatStreamsNeedBesidesTheirOutputCostsNobodysOutput(t *testing.T) {
	h := open(t)
	limits, err := ReadLimits(map[string]string{"quota.tenant": "20k"})
	require.NoError(t, err)
	h.Use(limits)
	var ids []string
	for i := range 10 {
		ids = append(ids, h.stream("tenant", fmt.Sprint("pod", i), 1))
	}
	h.look()
	require.ErrorIs(t, h.CheckBytes("tenant"), ErrQuota, "only retention makes room")
	require.Empty(t, h.full, "no sweep begins sooner, because it can't make room either")
	for _, id := range ids {
		state, err := h.store.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, streams.Ranges{{From: 0, To: 1}}, state.Stored)
	}
}

func TestNothingIsDeletedBeforeTheLimitsOfTheOperatorAreKnown(t *testing.T) {
	h := open(t)
	h.known.Store(false)
	limits := DefaultLimits
	limits.Defaults.Quota, limits.Defaults.Retention = 50_000, time.Hour
	h.limits.Store(&limits)
	old := h.stream("another", "old", 5)
	h.age(3 * time.Hour)
	loud := h.stream("tenant", "loud", 100)
	h.look()
	for id, length := range map[string]int64{old: 5, loud: 100} {
		state, err := h.store.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, streams.Ranges{{From: 0, To: length}}, state.Stored)
	}
	h.Use(&limits)
	h.look()
	require.NoError(t, h.CheckBytes("tenant"))
	_, err := h.store.Source(t.Context(), old)
	require.ErrorIs(t, err, streams.ErrNoStream)
}

func TestTheLargestStreamsAreCutToTheSameSize(t *testing.T) {
	for _, test := range []struct {
		sizes []int64
		by    int64
		want  int64
	}{
		{[]int64{100, 5, 5}, 50, 50}, {[]int64{100, 80, 5}, 50, 65}, {[]int64{100, 99, 98}, 30, 89}, {[]int64{7, 7}, 14, 0}, {[]int64{7, 7}, 20, 0}, {nil, 5, 0}, {[]int64{10, 4}, 6, 4},
	} {
		require.Equal(t, test.want, largestSize(test.sizes, test.by), "%v by %d", test.sizes, test.by)
	}
}
