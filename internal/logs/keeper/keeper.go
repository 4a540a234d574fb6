// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package keeper maintains the storage of the log service: it joins the objects of
// streams, deletes streams after their retention, and knows how much each namespace has
// stored. Any number of replicas share that work, and it does no harm if several do the same.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A Keeper maintains a store.
type Keeper struct {
	store   *streams.Store
	bucket  storage.Bucket
	logger  *slog.Logger
	metrics *metrics
	// OwnLinger is the time that LingerByStorage stands for.
	OwnLinger time.Duration
	// Alone says that there is no other replica.
	Alone   bool
	limits  atomic.Pointer[Limits]
	known   atomic.Bool // whether limits are those of the operator
	changed chan struct{}
	full    chan struct{} // that bytes were refused because of a quota
	usage   *usage
	// hopeless has the namespaces to which the last sweep couldn't give room.
	hopeless atomic.Pointer[map[string]bool]

	journal    *journal
	partitions [partitions]*partition
	first, end int // the partitions of this replica
}

// New returns a keeper of the streams in a bucket with the default limits. Until Use is
// called, it deletes nothing.
func New(store *streams.Store, bucket storage.Bucket, logger *slog.Logger, registry prometheus.Registerer) *Keeper {
	k := &Keeper{
		store: store, bucket: bucket, logger: logger, metrics: newMetrics(registry), changed: make(chan struct{}, 1), full: make(chan struct{}, 1),
		usage: newUsage(), OwnLinger: LingerOnBucket, journal: newJournal(bucket),
	}
	for i := range k.partitions {
		k.partitions[i] = newPartition(i)
	}
	limits := DefaultLimits
	k.limits.Store(&limits)
	k.hopeless.Store(&map[string]bool{})
	return k
}

const (
	// fullSpeed is how many times sooner the next sweep may begin if a namespace has reached its
	// quota, so that it gets room.
	fullSpeed = 10
	// leaveTimeout bounds what is left to do when the service stops.
	leaveTimeout = 10 * time.Second
)

// Run sweeps at intervals until ctx is done. Leave follows once nothing is written any more.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		began := time.Now()
		err := k.Sweep(ctx)
		k.metrics.duration.Observe(time.Since(began).Seconds())
		if err != nil && ctx.Err() == nil {
			k.metrics.failures.Inc()
			k.logger.Error("A sweep over the logs failed, and will be repeated", "error", err)
		}
		if !k.pause(ctx) {
			return nil
		}
	}
}

// pause waits until the next sweep, and reports whether there is one.
func (k *Keeper) pause(ctx context.Context) bool {
	// Jitter keeps replicas from sweeping at the same time.
	pause := k.limits.Load().Interval
	pause += rand.N(pause/5 + 1) //nolint:gosec // G404: no secret
	select {
	case <-ctx.Done():
		return false
	case <-k.changed:
		return true
	case <-time.After(pause / fullSpeed):
	}
	select {
	case <-ctx.Done():
		return false
	case <-k.changed:
	case <-k.full:
	case <-time.After(pause - pause/fullSpeed):
	}
	return true
}

// Leave saves what this replica knows, and leaves its partitions to others at once. Without
// it, they find out.
func (k *Keeper) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	now, err := k.store.Now(ctx)
	s := &sweep{Keeper: k, now: now}
	for _, p := range s.own() {
		if err == nil && p.dirty {
			err = s.save(ctx, p)
		}
	}
	if err == nil {
		err = k.publish(ctx, now, true)
	}
	if err != nil {
		k.logger.Warn("What the keeper knows can't be saved: other replicas find out", "error", err)
	}
}

// A sweep goes through this replica's partitions once.
type sweep struct {
	*Keeper
	streams   *streams.Sweep
	now       time.Time
	limits    *Limits
	gap       streams.Gap  // the reason to doubt the clock, if any
	inDoubt   bool         // nothing is deleted: because of gap, or because the limits aren't known
	postponed atomic.Int64 // the number of streams that would be deleted otherwise
}

// Sweep inspects the streams that need it once. A failure for one stream doesn't keep others
// from being inspected.
func (k *Keeper) Sweep(ctx context.Context) error {
	now, err := k.store.Now(ctx)
	if err != nil {
		return err
	}
	s := &sweep{Keeper: k, now: now, limits: k.limits.Load()}
	if s.gap, err = k.store.NoteSweep(ctx, now); err != nil {
		return err
	}
	s.inDoubt = s.gap != streams.Gap{} || !k.known.Load()
	s.streams = k.store.NewSweep(now, s.inDoubt)
	k.usage.beginSweep()
	stop := s.signOfLife(ctx)
	defer stop()
	return s.run(ctx)
}

func (s *sweep) run(ctx context.Context) error {
	pages, all := s.readJournal(ctx)
	listed := false
	for _, p := range s.own() {
		if !p.loaded {
			continue
		}
		listed = listed || p.isFull(s.now)
		if err := s.sweepPartition(ctx, p); err != nil {
			all = errors.Join(all, err)
		}
		if ctx.Err() != nil {
			return errors.Join(all, ctx.Err())
		}
	}
	if s.known.Load() {
		hasTrimmed, err := s.makeRoom(ctx)
		all = errors.Join(all, err, s.finishDeletions(ctx))
		listed = listed || hasTrimmed
	}
	s.usage.endSweep()
	if listed && !s.Alone { // others have to know at once how much is stored
		all = errors.Join(all, s.publish(ctx, s.now, false))
	}
	return errors.Join(all, s.forget(ctx, pages))
}

// own returns the partitions of this replica.
func (k *Keeper) own() []*partition { return k.partitions[k.first:k.end] }

// readJournal writes and reads pages, and finds the partitions of this replica.
func (s *sweep) readJournal(ctx context.Context) (pages []listedPage, err error) {
	failed := s.publish(ctx, s.now, false) // such as on a volume that is full
	if pages, err = s.journal.list(ctx); err != nil {
		return nil, errors.Join(failed, err)
	}
	first, end := s.share(pages, s.now)
	for i, p := range s.partitions {
		if p.loaded && (i < first || i >= end) {
			if p.dirty {
				failed = errors.Join(failed, s.save(ctx, p))
			}
			p.forget()
		}
	}
	s.first, s.end = first, end
	s.metrics.partitions.Set(float64(end - first))
	if err := s.loadLedgers(ctx); err != nil {
		return pages, errors.Join(failed, err)
	}
	for _, p := range s.own() {
		p.relist = p.relist || p.missedPages(pages)
	}
	for _, from := range pages {
		failed = errors.Join(failed, s.readPage(ctx, from))
	}
	return pages, failed
}

// readPage reads a page, unless everything knows it.
func (s *sweep) readPage(ctx context.Context, from listedPage) error {
	isNew := func(p *partition) bool { return p.read[from.replica] < from.number }
	if s.usage.knows(from.pageName) && !slices.ContainsFunc(s.own(), isNew) {
		return nil
	}
	content, err := s.journal.read(ctx, from)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // it was old
	case errors.Is(err, errPage):
		s.metrics.ledgerFailures.Inc()
		s.logger.Warn("A page of a journal can't be read: all streams are listed instead", "error", err)
		content = &page{All: true}
	case err != nil:
		return err
	}
	written := content.written()
	s.usage.note(from.pageName, from.at, content.Totals, written)
	for _, p := range s.own() {
		p.note(from, written, content.All)
	}
	return nil
}

// signOfLife writes pages while the sweep takes longer than its interval, and notes that it
// still runs, so that it isn't taken for a gap.
func (s *sweep) signOfLife(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(time.Second, s.limits.Interval))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := s.store.Now(ctx)
			if err == nil {
				_, err = s.store.NoteSweep(ctx, now)
			}
			if err == nil {
				err = s.publish(ctx, now, false)
			}
			if err != nil && ctx.Err() == nil {
				s.logger.Warn("That a sweep still runs can't be noted", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// finishDeletions restores or removes streams that were marked as deleted. While the clock
// is doubted, nothing is removed.
func (s *sweep) finishDeletions(ctx context.Context) error {
	postponed := s.postponed.Load()
	s.metrics.postponed.Set(float64(postponed))
	if s.gap != (streams.Gap{}) && postponed > 0 {
		s.logger.Warn("The deletion of streams is postponed: no sweep ran for hours, so either the service was down, or the clock of the storage was changed. Check the clock: if it is right, nothing is to be done",
			"streams", postponed, "lastSweep", s.gap.From, "nextSweep", s.gap.To, "until", s.gap.DoubtUntil())
	}
	if s.first == s.end {
		return nil
	}
	keep := func(namespace string) time.Duration { return s.Keeper.limits.Load().Of(namespace).Retention }
	restored, removed, err := s.streams.FinishDeletions(ctx, s.partitions[s.first].digit[0], s.partitions[s.end-1].digit[0], keep)
	s.metrics.removed.Add(float64(removed))
	if restored > 0 {
		s.logger.Warn("Streams were restored, because their retention isn't over", "streams", restored)
	}
	return err
}

// forget deletes old pages, and old signs of followers. One replica is enough for that.
func (s *sweep) forget(ctx context.Context, pages []listedPage) error {
	s.usage.forgetPages(s.now.Add(-2 * pageAge))
	if s.first > 0 || s.end == 0 {
		return nil
	}
	var old []string
	for _, p := range pages {
		if age := s.now.Sub(p.at); age.Abs() > pageAge && s.usage.isNewer(p.at) {
			old = append(old, p.key)
		}
	}
	if err := s.bucket.DeleteAll(ctx, old); err != nil {
		return fmt.Errorf("deleting old pages of the journal: %w", err)
	}
	return s.store.ForgetFollowers(ctx)
}
