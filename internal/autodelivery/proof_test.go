// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestThePauseAfterACanaryGrowsToAnHour(t *testing.T) {
	require.Zero(t, proof{}.due(), "the first one needs none")
	for n, want := range map[int]time.Duration{
		1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 7: 32 * time.Minute, 8: time.Hour, 9: time.Hour, 1000000: time.Hour,
	} {
		require.Equal(t, noon.Add(want), proof{At: noon, Canaries: n}.due(), "after %d", n)
	}
}

func TestStoredProofsAreRead(t *testing.T) {
	known := proofs{fits.question(images): {fits, images, failed, noon, 3, "why"}}
	require.Equal(t, known, readProofs(known.data(nil)))
}

func TestTheProofsThatAreNeededAndTheNewestAreKept(t *testing.T) {
	known, asked := proofs{}, map[string]bool{}
	for i := range 3 * maxProofs {
		id := fmt.Sprintf("%04d", i)
		known[id] = proof{Result: proven, At: noon.Add(time.Duration(i) * time.Minute), System: system{OSImage: strings.Repeat("x", 1<<16)}}
		asked[id] = i < 3
	}
	data := known.data(asked)
	require.Len(t, data, maxProofs)
	for _, id := range []string{"0000", "0001", "0002", "0191", "0131"} {
		require.Contains(t, data, id)
	}
	require.NotContains(t, data, "0003")
	size := 0
	for _, text := range data {
		size += len(text)
	}
	require.Less(t, size, 1<<16, "whatever nodes say of themselves")
	require.Len(t, known["0000"].System.OSImage, 1<<16)
}
