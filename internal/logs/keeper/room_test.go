// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
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
