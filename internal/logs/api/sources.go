// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// maxSources is how many sources are remembered, of some 300 bytes each, and its labels.
const maxSources = 20_000

// remembered is how long a stream is known to be there that is deleted meanwhile. It
// is less than what the deletion waits (internal/logs/streams/remove.go).
const remembered = time.Minute

// sources remembers where streams come from, which never changes.
type sources struct {
	streams *streams.Store

	mu    sync.Mutex
	known map[string]known
}

type known struct {
	streams.Source
	since time.Time
}

func newSources(store *streams.Store) *sources {
	return &sources{streams: store, known: map[string]known{}}
}

func (s *sources) of(ctx context.Context, id string) (streams.Source, error) {
	s.mu.Lock()
	had := s.known[id]
	s.mu.Unlock()
	if time.Since(had.since) < remembered {
		return had.Source, nil
	}
	source, err := s.streams.Source(ctx, id)
	if err != nil {
		return source, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSources {
		clear(s.known)
	}
	s.known[id] = known{source, time.Now()}
	return source, nil
}
