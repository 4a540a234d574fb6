// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// listInterval is the pause between two listings for new pods and containers.
	listInterval = 2 * time.Second
	// unendedGrace is how long to wait for more of a stream that isn't complete after the
	// end of the target: its sender may have been killed.
	unendedGrace = 15 * time.Second
)

// A follower prints streams while they are written.
type follower struct {
	*Client
	Options
	listInterval, unendedGrace time.Duration

	known    map[string]bool
	open     sync.Map // the streams that aren't complete, by ID
	active   atomic.Int64
	lastPart atomic.Int64 // the time of the last part, in Unix nanoseconds
	failed   chan error
	group    sync.WaitGroup
}

func newFollower(c *Client, o Options) *follower {
	if o.Printer.Prefix == nil && o.Target.kind.label != "" {
		o.Printer.Prefix = new(true) // more containers may start, and the format shouldn't change then
	}
	return &follower{Client: c, Options: o, listInterval: listInterval, unendedGrace: unendedGrace, known: map[string]bool{}, failed: make(chan error, 1)}
}

// run follows until the target has ended, and its streams are complete.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer cancel()
	tail := f.Tail
	for {
		// In this order, so that a finished target's streams are all listed.
		finished, err := f.finished(ctx, f.Target)
		if err == nil {
			err = f.start(ctx, tail)
		}
		if err != nil && (len(f.known) == 0 || isFinal(err)) {
			return err
		}
		if err == nil {
			tail = -1 // later streams are new, so print them from the start
		}
		if finished && err == nil && f.isIdle() {
			return f.warnUnended()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.failed:
			return err
		case <-time.After(f.listInterval):
		}
	}
}

// start begins to follow the streams that are new.
func (f *follower) start(ctx context.Context, tail int) error {
	streams, err := f.streams(ctx, f.Options)
	if err != nil {
		return err
	}
	for _, s := range streams {
		if f.known[s.ID] {
			continue
		}
		o := f.Options
		o.Tail = tail
		from, err := f.startOffset(ctx, s, o)
		if err != nil {
			return err
		}
		f.known[s.ID] = true
		f.lastPart.Store(time.Now().UnixNano())
		f.open.Store(s.ID, s)
		f.active.Add(1)
		to := &notingSink{f.Printer.sink(s), &f.lastPart}
		f.group.Go(func() {
			defer f.active.Add(-1)
			if err := f.follow(ctx, s, from, to); err != nil && ctx.Err() == nil {
				select {
				case f.failed <- err:
				default:
				}
			}
		})
	}
	return nil
}

func (f *follower) follow(ctx context.Context, s Stream, from int64, to *notingSink) error {
	complete, err := f.copyParts(ctx, s, from, true, to)
	if complete {
		f.open.Delete(s.ID)
	}
	return errors.Join(err, to.finish())
}

// A notingSink is a sink that notes the time of the last part.
type notingSink struct {
	*sink
	lastPart *atomic.Int64
}

func (n *notingSink) part(p part) error {
	n.lastPart.Store(time.Now().UnixNano())
	return n.sink.part(p)
}

// isIdle reports whether no more is to be expected of a target that has ended.
func (f *follower) isIdle() bool {
	return f.active.Load() == 0 || time.Since(time.Unix(0, f.lastPart.Load())) > f.unendedGrace
}

// warnUnended warns about streams that aren't complete.
func (f *follower) warnUnended() error {
	if len(f.known) == 0 {
		return f.noLogsError(f.Options)
	}
	f.open.Range(func(_, value any) bool {
		s := value.(Stream)
		_, _ = fmt.Fprintf(f.Warnings, "The end of %s of container %q of pod %q is unknown: %s is over, and has sent no more.\n", printable(s.Name), s.Container, s.Pod, f.Target)
		return true
	})
	return nil
}
