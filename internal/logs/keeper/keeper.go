// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package keeper keeps the house of the log service: it has the objects of streams
// joined, deletes streams that aren't kept any more, and knows how much each
// namespace has. Any number of replicas may do so at once.
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
	// streamLimit bounds what is done for one stream at a time.
	streamLimit = 5 * time.Minute
	// longest is when a stream is looked at again to which nothing comes.
	longest = 24 * time.Hour
	// maxRemembered is how many streams aren't looked at each time, of some 150 bytes each.
	maxRemembered = 200_000
	// orphaned is how old what belongs to no stream has to be.
	orphaned = time.Hour
)

// A Keeper keeps the house of a store.
type Keeper struct {
	streams *streams.Store
	logger  *slog.Logger
	metrics *metrics
	limits  atomic.Pointer[Limits]
	changed chan struct{}
	usage   *usage
	known   map[string]known // by ID, of the last look
}

// known is what was found of a stream.
type known struct {
	namespace string
	bytes     int64
	last, due time.Time // when something was written, and when to look again
}

// New returns a keeper with the default limits.
func New(store *streams.Store, logger *slog.Logger, registry prometheus.Registerer) *Keeper {
	k := &Keeper{streams: store, logger: logger, metrics: newMetrics(registry), changed: make(chan struct{}, 1), usage: newUsage()}
	limits := DefaultLimits
	k.limits.Store(&limits)
	return k
}

// Run looks at all streams now and then, until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		began := time.Now()
		err := k.Look(ctx)
		k.metrics.duration.Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			k.metrics.failures.Inc()
			k.logger.Error("Keeping the logs failed, it is tried again", "error", err)
		}
		// Replicas that started at once don't stay together.
		pause := k.limits.Load().Interval
		pause += rand.N(pause/5 + 1) //nolint:gosec // G404: no secret
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-time.After(pause):
		}
	}
}

// Look goes through all streams once. What fails for one doesn't keep it from others.
func (k *Keeper) Look(ctx context.Context) error {
	now, err := k.streams.Now(ctx)
	if err != nil {
		return err
	}
	k.forget(k.usage.look())
	found, seen := map[string]amount{}, map[string]known{}
	var first error
	failed := 0
	err = k.streams.EachStream(ctx, func(id string) bool {
		stream, err := k.stream(ctx, id, now)
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
			stream = k.known[id] // which counts as it did
			stream.due = now
		}
		if stream.namespace != "" {
			found[stream.namespace] = found[stream.namespace].plus(amount{stream.bytes, 1})
			if len(seen) < maxRemembered {
				seen[id] = stream
			}
		}
		return ctx.Err() == nil
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("going through all streams: %w", err)
	}
	k.known = seen
	k.usage.looked(found)
	removed, err := k.streams.Remove(ctx, now)
	k.metrics.removed.Add(float64(removed))
	if first != nil {
		first = fmt.Errorf("%d streams, of which the first: %w", failed, first)
	}
	return errors.Join(err, first)
}

// forget has those be looked at again to which something came.
func (k *Keeper) forget(written map[string]bool, all bool) {
	for id, stream := range k.known {
		if all || written[id] {
			stream.due = time.Time{}
			k.known[id] = stream
		}
	}
}

// stream looks at one, unless it is known well enough.
func (k *Keeper) stream(ctx context.Context, id string, now time.Time) (known, error) {
	was, is := k.known[id]
	if is && now.Before(was.due) && !k.expired(was.namespace, was.last, now) {
		return was, nil
	}
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	defer cancel()
	source, err := k.streams.Source(ctx, id)
	if errors.Is(err, streams.ErrNoStream) {
		return known{}, k.orphan(ctx, id, now)
	}
	if err != nil {
		return was, err
	}
	done, err := k.streams.Tidy(ctx, id, now, k.limits.Load().Of(source.Namespace).Retention)
	k.metrics.joined.Add(float64(done.Joined))
	k.metrics.deleted.Add(float64(done.Deleted))
	if err != nil {
		return was, err
	}
	if done.Expired {
		return known{}, k.streams.Bury(ctx, id, source)
	}
	again := min(longest, now.Sub(done.Last)/4)
	if done.Joined > 0 {
		again = 0 // there is something to delete soon
	}
	return known{namespace: source.Namespace, bytes: done.Bytes, last: done.Last, due: now.Add(again)}, nil
}

func (k *Keeper) expired(namespace string, last, now time.Time) bool {
	keep := k.limits.Load().Of(namespace).Retention
	return keep > 0 && now.Sub(last) > keep
}

// orphan deletes what came to a stream when it had gone already.
func (k *Keeper) orphan(ctx context.Context, id string, now time.Time) error {
	found, err := k.streams.Tidy(ctx, id, now, orphaned)
	if err != nil || !found.Expired {
		return err
	}
	return k.streams.RemoveObjects(ctx, id, now.Add(-orphaned))
}
