// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// maxSources bounds the cache of sources, of some 300 bytes each and their labels.
const maxSources = 20_000

// A stream may be cached for some time after its deletion: for longer by its writers, which
// would ask for it with each part. Both times must be less than the pause between the steps
// of a deletion (internal/logs/streams/remove.go).
const (
	readSourceTTL  = time.Minute
	writeSourceTTL = 10 * time.Minute
)

// sources caches the sources of streams, which never change.
type sources struct {
	streams *streams.Store

	mu    sync.Mutex
	cache map[string]cachedSource
}

type cachedSource struct {
	streams.Source
	since time.Time
}

func newSources(store *streams.Store) *sources {
	return &sources{streams: store, cache: map[string]cachedSource{}}
}

func (s *sources) get(ctx context.Context, id string, ttl time.Duration) (streams.Source, error) {
	s.mu.Lock()
	had := s.cache[id]
	s.mu.Unlock()
	if time.Since(had.since) < ttl {
		return had.Source, nil
	}
	source, err := s.streams.Source(ctx, id)
	if err != nil {
		return source, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) >= maxSources {
		clear(s.cache)
	}
	s.cache[id] = cachedSource{source, time.Now()}
	return source, nil
}
