// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachTransportHasARowWithAllSizes(t *testing.T) {
	table, _, _ := strings.Cut(render([]result{
		{Transport: "FIFO", Size: 64, PerSecond: 1234567, Median: 5200, P99: 12345},
		{Transport: "FIFO", Size: 4096, PerSecond: 9999, Median: 6000, P99: 70000},
		{Transport: "TCP", Size: 64, PerSecond: 800, Median: time.Millisecond, P99: 2 * time.Millisecond},
	}, time.Second), "\n\n")
	require.Equal(t, []string{
		"| | messages of 64 B, a second | round trip, median | p99 | messages of 4 KiB, a second | round trip, median | p99 |",
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
		"| FIFO | 1,234,000 | 5.2 µs | 12.3 µs | 9999 | 6.0 µs | 70.0 µs |",
		"| TCP | 800 | 1000.0 µs | 2000.0 µs | | | |",
	}, strings.Split(table, "\n"))
}
