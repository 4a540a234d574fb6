// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package loopback_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/loopback"
)

func TestNoPortIsChosenTwice(t *testing.T) {
	chosen := map[string]bool{}
	for range 1000 {
		address, err := loopback.FreeAddress(t.Context())
		require.NoError(t, err)
		require.NotContains(t, chosen, address)
		chosen[address] = true
	}
}
