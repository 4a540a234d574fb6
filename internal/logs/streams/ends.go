// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"sync"
	"time"
)

const (
	// endTTL is how long a replica may not know of an end that another one has written. What
	// it stores behind the end meanwhile is in no layout, so nobody reads it.
	endTTL = 10 * time.Minute
	// maxOpen bounds the streams that are known to be open, of some 100 bytes each.
	maxOpen = 20_000
)

// ends knows which streams had no end a moment ago, so that writes needn't look.
type ends struct {
	mu   sync.Mutex
	open map[string]time.Time // when the look began, by ID
}

func newEnds() *ends { return &ends{open: map[string]time.Time{}} }

// wasOpen reports whether a stream had no end within endTTL.
func (e *ends) wasOpen(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, known := e.open[id]
	return known && time.Since(since) < endTTL
}

func (e *ends) noteOpen(id string, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.open) >= maxOpen {
		clear(e.open)
	}
	e.open[id] = since
}

func (e *ends) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, id)
}

// checkEnd returns ErrEnded if the stream ends before an offset, as far as this replica
// knows.
func (s *Store) checkEnd(ctx context.Context, id string, to int64) error {
	if s.ends.wasOpen(id) {
		return nil
	}
	now := time.Now()
	total, ended, err := s.length(ctx, id)
	switch {
	case err != nil:
		return err
	case !ended:
		s.ends.noteOpen(id, now)
	case to > total:
		return ErrEnded
	}
	return nil
}
