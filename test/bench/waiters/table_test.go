// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheBusyTimeIsThatOfAllButIdleness(t *testing.T) {
	busy, err := parseBusy("cpu  100 20 30 4000 500 6 7 80 0 0")
	require.NoError(t, err)
	require.Equal(t, 1630*time.Millisecond, busy)
	for _, line := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2", "cpu a b c d e f g h"} {
		_, err := parseBusy(line)
		require.ErrorContains(t, err, "/proc/stat", line)
	}
}

func TestTheTableSaysWhatOneContainerCosts(t *testing.T) {
	b := &bench{containers: 20, long: 20 * time.Second, kinds: []*kind{
		{name: "sleep", busy: []float64{0.1, 0.3, 0.2}},
		{name: "wait, in a Deployment's pod", waits: true, busy: []float64{0.5, 0.4, 0.6}},
	}}
	require.Equal(t, `Median of 3 runs of 20 s each, of pods with 20 containers. A core is 1000 millicores.

| containers | CPU of the whole node (range) | for each waiting container |
| --- | ---: | ---: |
| sleep | 200 millicores (100 to 300) |  |
| wait, in a Deployment's pod | 500 millicores (400 to 600) | 15.0 millicores |
`, b.render())
}
