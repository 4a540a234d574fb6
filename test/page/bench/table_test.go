// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheTableTellsWhatTheDashboardDoesNotShowInTime(t *testing.T) {
	ours := figures{first: time.Second, last: 2 * time.Second, elements: 1200, browser: 100e6, server: 30e6}
	slower := ours
	slower.last = 4 * time.Second
	systems := []system{{name: "page"}, {name: "Dashboard"}}
	p := plan{runs: 3, sizes: []int{10, 20}, patience: time.Minute}
	table, _, _ := strings.Cut(render(p, systems, map[key]measured{
		{10, "page"}:      {ours, slower, ours},
		{10, "Dashboard"}: {{first: 500 * time.Millisecond, last: 20 * time.Second, longestTask: 3 * time.Second, elements: 2400, browser: 250e6, server: 15e6}},
		{20, "page"}:      {ours},
		{20, "Dashboard"}: {{server: 30e6}},
	}), "\n\n")
	require.Equal(t, []string{
		"| lines | what | page | Dashboard | ratio |",
		"| ---: | --- | ---: | ---: | ---: |",
		"| 10 | first line seen | 1.00 s | 0.50 s | 0.5 |",
		"| 10 | last line seen | 2.00 s (2.00 to 4.00 s) | 20.00 s | 10.0 |",
		"| 10 | longest task of the page | under 0.05 s | 3.00 s | |",
		"| 10 | elements of the page | 1200 | 2400 | 2.0 |",
		"| 10 | memory of the page's process | 100 MB | 250 MB | 2.5 |",
		"| 10 | memory of the server | 30 MB | 15 MB | 0.5 |",
		"| 20 | first line seen | 1.00 s | not known | |",
		"| 20 | last line seen | 2.00 s | not in 60 s | > 30 |",
		"| 20 | longest task of the page | under 0.05 s | not known | |",
		"| 20 | elements of the page | 1200 | not known | |",
		"| 20 | memory of the page's process | 100 MB | not known | |",
		"| 20 | memory of the server | 30 MB | 30 MB | 1.0 |",
	}, strings.Split(table, "\n"))
}

func TestLinesHaveTheirLength(t *testing.T) {
	for _, n := range []int{0, 9_999_999} {
		require.Len(t, line(n), lineBytes-1)
	}
}
