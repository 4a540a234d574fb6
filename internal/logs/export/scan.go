// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// scanPause is the time between two scans, with up to a fifth more so that replicas don't
	// scan at the same time. The next scan comes sooner after one that has found too much, or has failed.
	scanPause, soonPause = time.Hour, 5 * time.Minute
	// staleAge is the age from which the claims of a stream are deleted that isn't there.
	staleAge = time.Hour
	// streamLength is the length of the ID of a stream.
	streamLength = 32
)

// A scan looks for streams that weren't sent to their end: those of replicas that have
// crashed, those from before the service sent anything, and those that had no room in the
// queue. It compares two listings in the order of their names.
type scan struct {
	*Exporter
	all      bool // whether streams count whose sending is at rest
	full     bool // whether the queue had no room
	oldClaim func() (storage.Object, bool)
	next     storage.Object
	has      bool
}

// run offers the streams to the queue.
func (s *scan) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var claimsErr error
	next, stop := iter.Pull(func(yield func(storage.Object) bool) {
		claimsErr = s.claims.bucket.Walk(ctx, path.Clean(s.claims.directory), "", yield)
	})
	defer stop()
	s.oldClaim = next
	s.next, s.has = next()
	err = s.store.EachIndexed(ctx, func(of streams.Indexed) bool {
		last := s.lastClaim(ctx, of)
		isSent := last.ending == isDone || last.ending == atRest && !s.all
		isOld := of.Created.Before(s.options.Since) || last.number == 0 && s.unclaimed > 0 && s.now().Sub(of.Created) > s.unclaimed
		if isSent || isOld || !s.wants(of.Namespace) {
			return ctx.Err() == nil
		}
		if !s.queue.offer(of.ID, of.Namespace, of.Pod, s.now()) {
			s.full = true
		}
		return ctx.Err() == nil
	})
	if err == nil && claimsErr == nil {
		s.lastClaim(ctx, streams.Indexed{Namespace: "~"}) // behind all names
	}
	if err == nil {
		err = claimsErr
	}
	if err != nil {
		return fmt.Errorf("looking for logs to send: %w", err)
	}
	return ctx.Err()
}

// lastClaim returns the last claim of a stream. It deletes claims that come before, which
// belong to no stream.
func (s *scan) lastClaim(ctx context.Context, of streams.Indexed) (last claimed) {
	wanted := of.Namespace + "/" + of.Pod + "/" + of.ID
	for ; s.has; s.next, s.has = s.oldClaim() {
		stream, number, is := splitClaim(s.next.Name)
		if is && stream == wanted {
			if c, ok := parseClaim(number); ok && c.later(last) {
				last = c
			}
			continue
		}
		if stream > wanted {
			break
		}
		if s.now().Sub(s.next.Written) > staleAge {
			_ = s.claims.bucket.Delete(ctx, s.claims.directory+s.next.Name) // the next scan tries again
		}
	}
	return last
}

// splitClaim splits the name of a claim behind the ID of the stream.
func splitClaim(name string) (stream, number string, is bool) {
	at := strings.LastIndex(name, "/") + 1 + streamLength
	if len(name) <= at || name[at] != '-' {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}
