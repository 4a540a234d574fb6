// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// postponedBytes bounds the streams that are to be created later, and postponedShare
	// those of one namespace: some thousand streams.
	postponedBytes = 8 << 20
	postponedShare = 1 << 20
	// postponedTTL is for how long a stream waits for the storage. A pod that runs for longer
	// has asked again.
	postponedTTL = time.Hour
)

// postponed are the streams that couldn't be created because the storage failed or was full.
// They are created when it has recovered. A pod asks for its stream as long as it runs, and
// may be gone by then: its stream, which has no end, tells readers that output is missing.
// They are in memory: a restart of the service forgets them.
type postponed struct {
	sources *tenants.Cache[postponedStream]
}

type postponedStream struct {
	source streams.Source
	until  time.Time
}

func newPostponed() postponed {
	return postponed{tenants.NewCache[postponedStream](postponedBytes, postponedShare)}
}

func (p postponed) add(s postponedStream) {
	key := fmt.Sprintf("%q", []string{s.source.Namespace, s.source.PodUID, s.source.Container, s.source.Start, s.source.Name})
	// The key has the other names.
	bytes := len(key) + len(s.source.Pod) + len(s.source.NamespaceUID)
	for label, value := range s.source.Labels {
		bytes += len(label) + len(value) + labelBytes
	}
	p.sources.Add(s.source.Namespace, key, s, bytes, time.Until(s.until))
}

// labelBytes is the overhead of a label in memory, roughly.
const labelBytes = 64

// postpone has a stream created later if the storage is the reason why it wasn't created.
func (s *Server) postpone(source streams.Source, err error) {
	if problemOf(err).status >= http.StatusInternalServerError {
		s.postponed.add(postponedStream{source, time.Now().Add(postponedTTL)})
	}
}

// CreatePostponed creates the streams for which the storage had no space, or that it refused,
// until ctx is done.
func (s *Server) CreatePostponed(ctx context.Context) error {
	ticker := time.NewTicker(s.timing.postponed)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.createPostponed(ctx)
		}
	}
}

// createPostponed tries once. The first failure of the storage ends it. The order is random, so
// that no stream that always fails keeps the others from being created.
func (s *Server) createPostponed(ctx context.Context) {
	waiting := s.postponed.sources.Drain()
	var refused []error
	for i, stream := range waiting {
		err := s.createNow(ctx, stream.source)
		if err != nil && problemOf(err).status >= http.StatusInternalServerError {
			for _, again := range waiting[i:] {
				s.postponed.add(again)
			}
			break
		}
		if err != nil {
			refused = append(refused, err)
		}
	}
	if len(refused) > 0 {
		s.logger.WarnContext(ctx, "Streams that the storage had refused can't be created any more", "count", len(refused), "error", refused[0])
	}
}

// createNow creates a stream within the limits of its namespace.
func (s *Server) createNow(ctx context.Context, source streams.Source) (err error) {
	if source.Surplus, err = s.surplus(ctx, source); err != nil {
		return err
	}
	_, err = s.createStream(ctx, source)
	return err
}
