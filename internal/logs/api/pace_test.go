// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFollowerLooksLessOftenWhileNothingComes(t *testing.T) {
	c := &transfer{Server: &Server{timing: defaultTiming}}
	for _, want := range []time.Duration{500 * time.Millisecond, 750 * time.Millisecond, 1125 * time.Millisecond} {
		require.Equal(t, want, c.nextPause())
	}
	for range 10 {
		c.nextPause()
	}
	require.Equal(t, 3*time.Second, c.nextPause())
}
