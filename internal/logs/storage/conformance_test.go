// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"testing"

	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

func TestFilesConform(t *testing.T) { storagetest.Run(t, storagetest.Files) }
