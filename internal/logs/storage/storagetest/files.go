// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// Files returns a new directory.
func Files(t *testing.T) Place {
	t.Helper()
	directory := t.TempDir()
	return func(t *testing.T) storage.Bucket {
		t.Helper()
		return OpenFiles(t, directory)
	}
}

// OpenFiles opens a directory until the test is over.
func OpenFiles(t *testing.T, directory string) storage.Bucket {
	t.Helper()
	files, err := storage.OpenFiles(directory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	return files
}
