// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/budget"
)

func TestNoHolderTakesMoreThanItsShare(t *testing.T) {
	b := budget.New(10, 6, 4)
	require.True(t, b.TryAcquire(4, "tenant", "a"))
	require.False(t, b.TryAcquire(1, "tenant", "a"), "the pod's share is used up")
	require.True(t, b.TryAcquire(2, "tenant", "b"))
	require.False(t, b.TryAcquire(1, "tenant", "c"), "the namespace's share is used up")
	require.True(t, b.TryAcquire(4, "b", "tenant"), "a holder is known by its name and its level")
	require.False(t, b.TryAcquire(1, "third", "d"), "nothing is left")
	require.Equal(t, int64(10), b.InUse())

	b.Release(4, "tenant", "a")
	require.True(t, b.TryAcquire(3, "tenant", "c"))
	b.Release(3, "tenant", "c")
	b.Release(2, "tenant", "b")
	b.Release(4, "b", "tenant")
	require.Zero(t, b.InUse())
}
