// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package synced provides a buffer that goroutines of a test can share.
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

// String returns the text written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
