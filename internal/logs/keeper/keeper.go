// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package keeper maintains the storage of the log service: it joins the objects of
// streams, deletes streams after their retention, and knows how much each namespace has
// stored. Any number of replicas may do so at the same time.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// streamTimeout bounds the work on one stream in a sweep.
	streamTimeout = 5 * time.Minute
	// maxInspectPause bounds the time between two inspections of a stream that isn't
	// written.
	maxInspectPause = 24 * time.Hour
	// maxRemembered bounds the records, of some 150 bytes each. A sweep inspects streams
	// without a record each time.
	maxRemembered = 200_000
	// orphanAge is the age from which objects without a stream are deleted.
	orphanAge = time.Hour
)

// A Keeper maintains a store.
type Keeper struct {
	streams *streams.Store
	logger  *slog.Logger
	metrics *metrics
	// OwnLinger is the time that LingerByStorage stands for.
	OwnLinger time.Duration
	limits    atomic.Pointer[Limits]
	known     atomic.Bool // whether limits are those of the operator
	changed   chan struct{}
	full      chan struct{} // that bytes were refused because of a quota
	usage     *usage
	// hopeless has the namespaces to which the last sweep couldn't give room.
	hopeless atomic.Pointer[map[string]bool]
	records  map[string]streamRecord // by ID, as of the last sweep

	// Of the current sweep:
	gap       streams.Gap // the reason to doubt the clock, if any
	inDoubt   bool        // nothing is deleted: because of gap, or because the limits aren't known
	postponed int         // the number of streams that would be deleted otherwise
}

// A streamRecord is what a sweep has found of a stream.
type streamRecord struct {
	namespace string
	bytes     int64     // of its objects
	content   int64     // the part of bytes that trimming can free
	copies    int64     // the part of bytes that joining will free
	index     int64     // bytes of its entries in the index
	written   int       // how many objects this replica has written since the last inspection
	last, due time.Time // the times of the last write, and of the next inspection
}

// New returns a keeper with the default limits. Until Use is called, it deletes nothing.
func New(store *streams.Store, logger *slog.Logger, registry prometheus.Registerer) *Keeper {
	k := &Keeper{streams: store, logger: logger, metrics: newMetrics(registry), changed: make(chan struct{}, 1), full: make(chan struct{}, 1), usage: newUsage(), OwnLinger: LingerOnBucket}
	limits := DefaultLimits
	k.limits.Store(&limits)
	k.hopeless.Store(&map[string]bool{})
	return k
}

// fullSpeed is how many times sooner the next sweep may begin if a namespace has reached its
// quota, so that it gets room.
const fullSpeed = 10

// Run sweeps at intervals until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		began := time.Now()
		err := k.Sweep(ctx)
		k.metrics.duration.Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			k.metrics.failures.Inc()
			k.logger.Error("A sweep over the logs failed, and will be repeated", "error", err)
		}
		// Jitter keeps replicas from sweeping at the same time.
		pause := k.limits.Load().Interval
		pause += rand.N(pause/5 + 1) //nolint:gosec // G404: no secret
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
			continue
		case <-time.After(pause / fullSpeed):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-k.full:
		case <-time.After(pause - pause/fullSpeed):
		}
	}
}

// Sweep inspects all streams once. A failure for one stream doesn't keep others from
// being inspected.
func (k *Keeper) Sweep(ctx context.Context) error {
	now, err := k.streams.Now(ctx)
	if err != nil {
		return err
	}
	if k.gap, err = k.streams.NoteSweep(ctx, now); err != nil {
		return err
	}
	k.postponed, k.inDoubt = 0, k.gap != streams.Gap{} || !k.known.Load()
	written, all := k.usage.beginSweep()
	k.noteWritten(written, all, now)
	found, seen := map[string]amount{}, map[string]streamRecord{}
	var firstErr error
	failed, noted := 0, time.Now()
	err = k.streams.EachStream(ctx, func(id string) bool {
		if time.Since(noted) > time.Hour { // a long sweep isn't a gap
			noted = time.Now()
			k.noteLongSweep(ctx)
		}
		stream, err := k.sweepStream(ctx, id, now)
		if err != nil {
			failed++
			if firstErr == nil {
				firstErr = err
			}
			stream = k.records[id] // counts as it did in the last sweep
			stream.due = now
		}
		if stream.namespace != "" {
			found[stream.namespace] = found[stream.namespace].plus(amount{stream.bytes + stream.index, 1})
			if len(seen) < maxRemembered {
				seen[id] = stream
			}
		}
		return ctx.Err() == nil
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("going through all streams: %w", err)
	}
	var trimErr error
	if k.known.Load() {
		trimErr = k.makeRoom(ctx, now, found, seen)
	}
	k.records = seen
	k.usage.endSweep(found)
	if err = nil; k.known.Load() {
		err = k.finishDeletions(ctx, now)
	}
	if firstErr != nil {
		firstErr = fmt.Errorf("%d streams failed, the first one: %w", failed, firstErr)
	}
	return errors.Join(err, trimErr, firstErr, k.streams.ForgetFollowers(ctx))
}

// noteLongSweep notes that a sweep still runs. The next sweep repeats what fails.
func (k *Keeper) noteLongSweep(ctx context.Context) {
	now, err := k.streams.Now(ctx)
	if err == nil {
		_, err = k.streams.NoteSweep(ctx, now)
	}
	if err != nil && ctx.Err() == nil {
		k.logger.Warn("That a sweep still runs can't be noted", "error", err)
	}
}

// finishDeletions restores or removes streams that were marked as deleted. While the clock
// is doubted, nothing is removed.
func (k *Keeper) finishDeletions(ctx context.Context, now time.Time) error {
	k.metrics.postponed.Set(float64(k.postponed))
	keep := func(namespace string) time.Duration { return k.limits.Load().Of(namespace).Retention }
	restored, removed, err := k.streams.FinishDeletions(ctx, now, keep, k.inDoubt)
	k.metrics.removed.Add(float64(removed))
	if restored > 0 {
		k.logger.Warn("Streams were restored, because their retention isn't over", "streams", restored)
	}
	if k.gap != (streams.Gap{}) && k.postponed > 0 {
		k.logger.Warn("The deletion of streams is postponed: no sweep ran for hours, so either the service was down, or the clock of the storage was changed. Check the clock: if it is right, nothing is to be done",
			"streams", k.postponed, "lastSweep", k.gap.From, "nextSweep", k.gap.To, "until", k.gap.DoubtUntil())
	}
	return err
}

// noteWritten adds what was written to the records. Those of streams that have grown much
// become due. When the last write was is left to the next inspection, which comes at once if
// the retention looks over. What was written while the last sweep inspected its stream may be counted
// twice, until the next inspection.
func (k *Keeper) noteWritten(written map[string]growth, all bool, now time.Time) {
	for id, stream := range k.records {
		more, is := written[id]
		if !is && !all {
			continue
		}
		stream.bytes, stream.content, stream.written = stream.bytes+more.bytes, stream.content+more.bytes, stream.written+more.objects
		if soon := now.Add(streams.MaxGrowthPause); stream.due.After(soon) {
			stream.due = soon
		}
		if all || streams.IsWorthTidying(stream.written) {
			stream.due = time.Time{}
		}
		k.records[id] = stream
	}
}

// sweepStream inspects and tidies a stream, unless its record is still good.
func (k *Keeper) sweepStream(ctx context.Context, id string, now time.Time) (streamRecord, error) {
	last := k.records[id]
	if last.isCurrent(now) {
		isOver := k.expired(last.namespace, last.last, now)
		if isOver && k.inDoubt {
			k.postponed++
		}
		if !isOver || k.inDoubt {
			return last, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	source, err := k.streams.Source(ctx, id)
	if errors.Is(err, streams.ErrNoStream) {
		return streamRecord{}, k.removeOrphan(ctx, id, now)
	}
	if err != nil {
		return last, err
	}
	tidy := k.streams.Tidy
	if k.inDoubt {
		tidy = k.streams.TidyInDoubt
	}
	keep := k.limits.Load().Of(source.Namespace).Retention
	done, err := tidy(ctx, id, now, keep)
	k.metrics.joined.Add(float64(done.Joined))
	k.metrics.deleted.Add(float64(done.Deleted))
	if err != nil {
		return last, err
	}
	if done.Expired && !k.inDoubt {
		return streamRecord{}, k.streams.MarkDeleted(ctx, id, source)
	}
	if done.Expired {
		k.postponed++
	}
	again := min(maxInspectPause, done.NextTidy(now, keep))
	return streamRecord{
		namespace: source.Namespace, bytes: done.Bytes, content: done.Content, copies: done.Copies, index: streams.IndexBytes(source),
		last: done.Last, due: now.Add(again),
	}, nil
}

// isCurrent reports whether a record needs no other inspection yet. One that is due later
// than any comes from a time when the clock was ahead.
func (r streamRecord) isCurrent(now time.Time) bool {
	return now.Before(r.due) && r.due.Sub(now) <= maxInspectPause
}

func (k *Keeper) expired(namespace string, last, now time.Time) bool {
	keep := k.limits.Load().Of(namespace).Retention
	return keep > 0 && now.Sub(last) > keep
}

// removeOrphan deletes objects that were written to a stream after its deletion. The objects
// of a stream with a tombstone belong to it.
func (k *Keeper) removeOrphan(ctx context.Context, id string, now time.Time) error {
	isDeleted, err := k.streams.IsDeleted(ctx, id)
	if err != nil || isDeleted || k.inDoubt {
		return err
	}
	if isErased, err := k.streams.FinishErasure(ctx, id, now); err != nil || isErased {
		return err
	}
	// Another replica may have restored it, and deleted the tombstone, in between.
	if _, err := k.streams.Source(ctx, id); !errors.Is(err, streams.ErrNoStream) {
		return err
	}
	found, err := k.streams.Tidy(ctx, id, now, 0)
	if err != nil || now.Sub(found.Last) <= orphanAge {
		return err
	}
	return k.streams.RemoveObjects(ctx, id, now.Add(-orphanAge))
}
