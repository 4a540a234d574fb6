// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package synced has a buffer for tests whose goroutines write and read at once.
package synced

import (
	"bytes"
	"sync"
)

// A Buffer is a bytes.Buffer that goroutines share.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is what was written until now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
