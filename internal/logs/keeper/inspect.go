// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// streamTimeout bounds the work on one stream in a sweep.
	streamTimeout = 5 * time.Minute
	// heldPause is how often a stream is inspected that is held beyond its retention.
	heldPause = time.Hour
	// orphanAge is the age from which objects without a stream are deleted.
	orphanAge = time.Hour
)

// grown adds what was written to a record. Those of streams that have grown much become due.
// What was written while the last sweep inspected its stream may be counted twice, until the
// next inspection. The first record of a stream needs no inspection if a page says that it is
// new.
func (r record) grown(known bool, g growth, s *sweep) (record, bool) {
	if !known && (g.Streams <= 0 || g.Namespace == "") {
		return r, false
	}
	if !known {
		// Two pages have a creation if the first was written by a call that failed. Inspections
		// correct the other figures.
		r = record{namespace: g.Namespace, index: g.Index / g.Streams, due: s.now.Add(streams.AtRest)}
		g.Bytes -= g.Index
	}
	r.bytes, r.content, r.written = max(0, r.bytes+g.Bytes), max(0, r.content+g.Bytes), r.written+g.Objects
	if g.Objects > 0 || !known {
		r.last = s.now
	}
	if soon := s.now.Add(streams.GrowthPause(s.limits.Of(r.namespace).Retention)); r.due.After(soon) {
		r.due = soon
	}
	if g.Bytes < 0 || streams.IsWorthTidying(int(r.written)) {
		r.due = s.now
	}
	return r, true
}

// isCurrent reports whether a record needs no other inspection yet. One that is due later
// than any comes from a time when the clock was ahead.
func (r record) isCurrent(now time.Time) bool {
	return now.Before(r.due) && r.due.Sub(now) <= streams.AtRest
}

func (s *sweep) expired(r record) bool {
	keep := s.limits.Of(r.namespace).Retention
	return keep > 0 && s.now.Sub(r.last) > keep
}

// isDone decides what becomes of a stream, if it needn't be inspected.
func (p *pass) isDone(r *result) bool {
	switch {
	case r.isGone:
		return true
	case r.listed != nil && !r.listed.Has("meta"):
		return r.buried
	case !r.known:
		return false
	case r.listed != nil && p.isAtRest(r):
		return true
	}
	over := p.expired(r.record)
	if over && p.sweep.inDoubt && r.record.isCurrent(p.now) {
		p.sweep.postponed.Add(1)
	}
	r.stays = r.record.isCurrent(p.now) && (!over || p.sweep.inDoubt || r.record.held)
	return r.stays
}

// isAtRest reports whether a stream needs nothing, by the listing of all streams, and notes
// what that says.
func (p *pass) isAtRest(r *result) bool {
	found, isAtRest := p.streams.Look(r.listed, p.sweep.limits.Of(r.record.namespace).Retention)
	if !isAtRest {
		return false
	}
	r.record, r.listed, r.stays = p.recordOf(r.record, found), nil, true
	if found.Expired {
		p.sweep.postponed.Add(1)
	}
	return true
}

// recordOf returns the record of a stream that was inspected.
func (s *sweep) recordOf(before record, found streams.TidyResult) record {
	r := record{
		namespace: before.namespace, index: before.index, bytes: found.Bytes, content: found.Content, copies: found.Copies,
		last: found.Last, due: s.now.Add(found.NextTidy(s.now, s.limits.Of(before.namespace).Retention)), held: found.Held,
	}
	if r.held {
		r.due = s.now.Add(min(heldPause, r.due.Sub(s.now)))
	}
	return r
}

// inspect inspects and tidies a stream.
func (p *pass) inspect(ctx context.Context, r *result) {
	id := r.id.String()
	if r.listed != nil && !r.listed.Has("meta") {
		p.inspectOrphan(ctx, id, r)
		return
	}
	if !r.known {
		source, err := p.sweep.store.Source(ctx, id)
		switch {
		case errors.Is(err, streams.ErrNoStream):
			p.inspectOrphan(ctx, id, r)
			return
		case err != nil:
			r.err = err
			return
		}
		r.known, r.record.namespace, r.record.index = true, source.Namespace, streams.IndexBytes(source)
		if r.listed != nil && p.isAtRest(r) {
			return
		}
	}
	p.tidy(ctx, id, r)
}

// tidy inspects a stream by a listing of its own, and does what it needs.
func (p *pass) tidy(ctx context.Context, id string, r *result) {
	r.listed = nil // its memory isn't needed any more
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	p.metrics.inspected.Inc()
	done, err := p.streams.Tidy(ctx, id, p.sweep.limits.Of(r.record.namespace).Retention)
	p.metrics.joined.Add(float64(done.Joined))
	p.metrics.deleted.Add(float64(done.Deleted))
	switch {
	case errors.Is(err, streams.ErrNoStream):
		p.inspectOrphan(ctx, id, r)
		return
	case err != nil:
		r.err = err
		return
	case done.Expired && p.sweep.inDoubt:
		p.sweep.postponed.Add(1)
	case done.Expired:
		if isGone, err := p.expire(ctx, id); err != nil || isGone {
			r.err = err
			return
		}
		done.Held = true // since a moment ago
	}
	r.record, r.stays = p.recordOf(r.record, done), true
}

// expire takes the first step of deleting a stream, and reports whether it was taken.
func (p *pass) expire(ctx context.Context, id string) (isGone bool, err error) {
	source, err := p.sweep.store.Source(ctx, id)
	if errors.Is(err, streams.ErrNoStream) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return p.streams.MarkDeleted(ctx, id, source)
}

// inspectOrphan looks at objects without meta. If the stream exists after all, the next sweep
// inspects it.
func (p *pass) inspectOrphan(ctx context.Context, id string, r *result) {
	r.listed, r.known = nil, false
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	var source *streams.Source
	if source, r.err = p.removeOrphan(ctx, id); source != nil {
		r.record = record{namespace: source.Namespace, index: streams.IndexBytes(*source), last: p.now, due: p.now}
		r.known, r.stays = true, true
	}
}

// removeOrphan deletes objects that were written to a stream after its deletion. The objects
// of a stream with a tombstone belong to it. It returns the source if the stream exists.
func (p *pass) removeOrphan(ctx context.Context, id string) (*streams.Source, error) {
	store := p.sweep.store
	isDeleted, err := store.IsDeleted(ctx, id)
	if err != nil || isDeleted || p.sweep.inDoubt {
		return nil, err
	}
	isErased, err := store.FinishErasure(ctx, id, p.now)
	if err != nil {
		return nil, err
	}
	// Another replica may have restored it, and deleted the tombstone, in between.
	source, err := store.Source(ctx, id)
	if !errors.Is(err, streams.ErrNoStream) {
		return &source, err
	}
	if isErased {
		return nil, nil
	}
	found, err := store.Tidy(ctx, id, p.now, 0)
	if err != nil || p.now.Sub(found.Last) <= orphanAge {
		return nil, err
	}
	return nil, store.RemoveObjects(ctx, id, p.now.Add(-orphanAge))
}
