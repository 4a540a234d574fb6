// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"

	"github.com/entrypointer/entrypointer/internal/logs/api/apitest"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
)

func TestReplicasOnFilesConform(t *testing.T) { apitest.Run(t, storagetest.Files) }
