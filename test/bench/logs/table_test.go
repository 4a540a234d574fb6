// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
)

func TestTheTableHasTheBestOfTheRunsAndTheHighestRateWithoutALoss(t *testing.T) {
	table := render(figures{
		plain: []report{{Median: 2e3, P99: 9e3}, {Median: 3e3, P99: 8e3}}, own: []report{{Median: 4e3, P99: 12500}}, away: []report{{Median: 4e3, P99: 13e3}},
		plainSeen: []time.Duration{4e6}, ownSeen: []time.Duration{310e6}, plainEnds: []time.Duration{1e6}, ownEnds: []time.Duration{40e6},
		plainFlood: 120, flood: 300, supervisor: framework.Usage{RSSAnon: 8e5, CPU: 1e6}, shipper: framework.Usage{RSS: 9e6, CPU: 3e6},
		shipped: []shipped{
			{printed: 10, bytes: 50e6, service: framework.Usage{CPU: time.Second, RSS: 40e6}},
			{printed: 38, bytes: 60e6, dropped: 10e6, service: framework.Usage{CPU: time.Second, RSS: 50e6}},
		},
		plainBurst: kept{report{Bytes: 200e6, Took: 4 * time.Second}, 10e6}, burst: kept{report{Bytes: 200e6, Took: 9500 * time.Millisecond}, 200e6},
		streams: []streaming{{streams: 10, times: []time.Duration{2e6}, failed: 1, usage: framework.Usage{CPU: 5e6, RSS: 20e6}}},
	})
	for _, row := range []string{
		"| write(2) of a line, 1,000 a second, median | 2.0 µs | 4.0 µs |  |",
		"| p99 | 8.0 µs | 12.5 µs | unwrapped + 10 µs |",
		"| sent on one core, nothing dropped |  | 10 MB/s | 40 MB/s |",
		"| maximum sent on one core, while the rest is dropped |  | 32 MB/s |  |",
		"| time in which a command prints 200 MB at full speed, by default | 4.0 s | 9.5 s | 12 s |",
		"| how much of it is read afterwards | 10.0 MB | 200.0 MB | 200.0 MB |",
		"| from the write to a following reader, median | 4.0 ms | 310.0 ms | 600 ms |",
		"| CPU time of both processes for 100 lines in a second |  | 4.0 ms |  |",
		"| CPU time of the service for 1 MB |  | 20.0 ms | 16.7 ms |",
		"| memory of the service (RSS) meanwhile |  | 50.0 MB | 134 MB |",
		"| 10 | 1 of 2 | 2.0 ms | 2.0 ms | 5.0 ms | 20.0 MB |",
	} {
		require.Contains(t, table, row+"\n")
	}
}

func TestLinesTellHowLongTheyTook(t *testing.T) {
	text := fmt.Sprintf("%d before\n%d after\n", time.Now().Add(-time.Hour).UnixNano(), time.Now().Add(time.Hour).UnixNano())
	took, err := arrivals(strings.NewReader(text))
	require.NoError(t, err)
	require.Len(t, took, 1, "what was there isn't counted")
	require.InDelta(t, -time.Hour, took[0], float64(time.Minute))
	_, err = arrivals(strings.NewReader("[entrypointer: 3 bytes were dropped]\n"))
	require.Error(t, err)
}

func TestEndsArePairedInOrder(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, delaysOf([]report{{Ended: at(10)}, {Ended: at(5)}}, []time.Time{at(6), at(12)}))
}

func TestRangesHaveALength(t *testing.T) {
	bytes, err := length([]string{"0-9", "20-20"})
	require.NoError(t, err)
	require.Equal(t, int64(11), bytes)
	_, err = length([]string{"x"})
	require.Error(t, err)
}
