// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package streamstest opens stores of streams for tests.
package streamstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Open opens the store in a directory, each time as another replica.
func Open(t *testing.T, directory string) *streams.Store {
	t.Helper()
	store, err := streams.Open(t.Context(), storagetest.OpenFiles(t, directory))
	require.NoError(t, err)
	return store
}
