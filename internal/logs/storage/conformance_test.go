// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"testing"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

func TestFilesConform(t *testing.T) { storagetest.Run(t, storagetest.Files) }

func TestTheBucketOfTestsConforms(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storagetest.Place {
		bucket := storagetest.NewMemory(time.Now)
		return func(*testing.T) storage.Bucket { return bucket }
	})
}
