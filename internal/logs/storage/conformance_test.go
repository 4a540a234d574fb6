// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

func TestFilesAreABucket(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Place {
		directory := t.TempDir()
		return func(t *testing.T) storage.Bucket {
			files, err := storage.OpenFiles(directory)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, files.Close()) })
			return files
		}
	})
}
