// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
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
	// postponedTimeout bounds the creation of one stream.
	postponedTimeout = 30 * time.Second
	// postponedOverhead is what a stream takes beside its names, in bytes, and labelOverhead a
	// label beside its text, roughly.
	postponedOverhead, labelOverhead = 512, 64
)

// postponed are the streams that couldn't be created because the storage failed or was full.
// They are created when it has recovered. A pod asks for its stream as long as it runs, and
// may be gone by then: its stream, which has no end, tells readers that output is missing.
// They are in memory: a restart of the service forgets them.
type postponed struct {
	shares *tenants.Shares // of memory, in bytes

	mu      sync.Mutex
	waiting map[streamKey]postponedStream
}

// A streamKey is what identifies a stream.
type streamKey struct{ namespace, podUID, container, start, name string }

type postponedStream struct {
	source streams.Source
	bytes  int64
	until  time.Time
}

func newPostponed() *postponed {
	return &postponed{shares: tenants.NewShares(postponedBytes, postponedShare), waiting: map[streamKey]postponedStream{}}
}

func keyOf(s streams.Source) streamKey {
	return streamKey{s.Namespace, s.PodUID, s.Container, s.Start, s.Name}
}

// add keeps a stream, unless the namespace has used its share up: those that wait already may be
// of pods that are gone, and the others ask again.
func (p *postponed) add(source streams.Source, until time.Time) {
	bytes := postponedOverhead + len(source.Namespace) + len(source.NamespaceUID) + len(source.Pod) + len(source.PodUID) + len(source.Container) + len(source.Start) + len(source.Name)
	for label, value := range source.Labels {
		bytes += len(label) + len(value) + labelOverhead
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOf(source)
	if _, known := p.waiting[key]; !known && p.shares.TryAcquire(int64(bytes), source.Namespace) {
		p.waiting[key] = postponedStream{source, int64(bytes), until}
	}
}

// remove forgets a stream.
func (p *postponed) remove(source streams.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOf(source)
	if before, known := p.waiting[key]; known {
		delete(p.waiting, key)
		p.shares.Release(before.bytes, source.Namespace)
	}
}

// all returns the streams that wait, in a random order, so that no stream that always fails
// keeps the others from being created.
func (p *postponed) all() []postponedStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.waiting))
}

func (p *postponed) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// postpone has a stream created later if the storage is the reason why it wasn't created. A
// namespace whose UID isn't known may be another one by then.
func (s *Server) postpone(source streams.Source, err error) {
	if isOfStorage(err) && source.NamespaceUID != "" {
		s.postponed.add(source, time.Now().Add(postponedTTL))
	}
}

// isOfStorage reports whether the storage is the reason of an error.
func isOfStorage(err error) bool {
	return err != nil && problemOf(err).status >= http.StatusInternalServerError
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

var errTooLate = errors.New("the storage has failed for too long")

// createPostponed tries once. The first failure of the storage ends it.
func (s *Server) createPostponed(ctx context.Context) {
	var lost []error
	for _, stream := range s.postponed.all() {
		err := errTooLate
		if time.Now().Before(stream.until) {
			if err = s.createNow(ctx, stream.source); isOfStorage(err) {
				break
			}
		}
		s.postponed.remove(stream.source)
		if err != nil {
			lost = append(lost, err)
		}
	}
	if len(lost) > 0 {
		s.logger.WarnContext(ctx, "Streams whose creation the storage had refused can't be created any more", "count", len(lost), "error", lost[0])
	}
}

// createNow creates a stream within the limits of its namespace, unless it was deleted: its pod may
// have created it at another replica.
func (s *Server) createNow(ctx context.Context, source streams.Source) error {
	ctx, cancel := context.WithTimeout(ctx, postponedTimeout)
	defer cancel()
	deleted, err := s.streams.WasDeleted(ctx, source)
	if err != nil || deleted {
		return err
	}
	if source.Surplus, err = s.surplus(ctx, source); err != nil {
		return err
	}
	_, err = s.createStream(ctx, source)
	return err
}
