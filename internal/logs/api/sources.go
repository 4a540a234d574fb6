// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"sync"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// maxSources is how many sources are remembered, of some 300 bytes each, and its labels.
const maxSources = 20_000

// sources remembers where streams come from, which never changes.
type sources struct {
	streams *streams.Store

	mu    sync.Mutex
	known map[string]streams.Source
}

func newSources(store *streams.Store) *sources {
	return &sources{streams: store, known: map[string]streams.Source{}}
}

func (s *sources) of(ctx context.Context, id string) (streams.Source, error) {
	s.mu.Lock()
	source, known := s.known[id]
	s.mu.Unlock()
	if known {
		return source, nil
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
	s.known[id] = source
	return source, nil
}
