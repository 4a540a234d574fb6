// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"
)

const month = 30 * 24 * time.Hour

func TestAClockThatIsAMonthAheadDeletesNothing(t *testing.T) {
	h := open(t)
	text := &synced.Buffer{}
	h.logger = slog.New(slog.NewTextHandler(text, nil))
	old, recent := h.stream("tenant", "old", 3), h.stream("tenant", "recent", 3)
	h.look()
	h.age(month + 24*time.Hour) // to the service, this looks as if the clock were that much ahead
	for range 3 {
		h.look()
	}
	for _, id := range []string{old, recent} {
		_, err := h.store.Source(t.Context(), id)
		require.NoError(t, err)
	}
	require.InDelta(t, 2, testutil.ToFloat64(h.metrics.postponed), 0)
	require.Contains(t, text.String(), "The deletion of streams is postponed")

	h.age(-month - 24*time.Hour) // the clock is corrected
	h.look()
	require.InDelta(t, 0, testutil.ToFloat64(h.metrics.postponed), 0)
	for _, id := range []string{old, recent} {
		state, err := h.store.State(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, streams.Ranges{{From: 0, To: 3}}, state.Stored)
	}
}

func TestAfterAMonthWithoutTheServiceStreamsAreDeletedDaysLater(t *testing.T) {
	h := open(t)
	id := h.stream("tenant", "pod", 3)
	h.look()
	h.age(month + 24*time.Hour)
	h.run(70 * time.Hour)
	_, err := h.store.Source(t.Context(), id)
	require.NoError(t, err, "the clock is still doubted")
	h.run(10 * time.Hour)
	_, err = h.store.Source(t.Context(), id)
	require.ErrorIs(t, err, streams.ErrNoStream)
	require.InDelta(t, 0, testutil.ToFloat64(h.metrics.postponed), 0)
	h.run(26 * time.Hour)
	require.Empty(t, h.files("streams/"+id))
}

func TestADeletionIsUndoneIfTheRetentionIsntOverAfterAll(t *testing.T) {
	for name, correct := range map[string]func(*testKeeper){
		"the clock was some days ahead": func(h *testKeeper) { h.age(-5 * 24 * time.Hour) },
		"the operator has corrected the retention within a day": func(h *testKeeper) {
			h.Use(&DefaultLimits)
			h.run(26 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			limits, err := ReadLimits(map[string]string{"retention": "3d"})
			require.NoError(t, err)
			h.Use(limits)
			id := h.stream("tenant", "pod", 3)
			h.run(80 * time.Hour)
			_, err = h.store.Source(t.Context(), id)
			require.ErrorIs(t, err, streams.ErrNoStream)
			require.NotEmpty(t, h.files("streams/"+id))
			correct(h)
			h.look()
			state, err := h.store.State(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, streams.Ranges{{From: 0, To: 3}}, state.Stored)
			list, _, err := h.store.List(t.Context(), "tenant", "pod")
			require.NoError(t, err)
			require.Len(t, list, 1)
		})
	}
}
