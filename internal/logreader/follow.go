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
	// lookAgain is how soon new pods and containers are seen.
	lookAgain = 2 * time.Second
	// unended is how long more is waited for of a stream whose target has come to its
	// end, but which isn't complete: its sender was killed.
	unended = 15 * time.Second
)

// A following prints what comes.
type following struct {
	*Client
	Options
	lookAgain, unended time.Duration

	known  map[string]bool
	open   sync.Map // streams that aren't complete, by ID
	active atomic.Int64
	news   atomic.Int64 // when something came, in Unix nanoseconds
	failed chan error
	group  sync.WaitGroup
}

func newFollowing(c *Client, o Options) *following {
	if o.Printer.Prefix == nil && o.Target.kind.label != "" {
		o.Printer.Prefix = new(true) // others may come, and lines shouldn't change
	}
	return &following{Client: c, Options: o, lookAgain: lookAgain, unended: unended, known: map[string]bool{}, failed: make(chan error, 1)}
}

// run follows until the target has come to its end and its streams are complete.
func (f *following) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer cancel()
	tail := f.Tail
	for {
		// In this order: what the target has left when it ended is listed.
		finished, err := f.finished(ctx, f.Target)
		if err == nil {
			err = f.start(ctx, tail)
		}
		if err != nil && (len(f.known) == 0 || isFinal(err)) {
			return err
		}
		if err == nil {
			tail = -1 // what comes later is new
		}
		if finished && err == nil && f.ended() {
			return f.last()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.failed:
			return err
		case <-time.After(f.lookAgain):
		}
	}
}

// start follows the streams that are new.
func (f *following) start(ctx context.Context, tail int) error {
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
		from, err := f.begin(ctx, s, o)
		if err != nil {
			return err
		}
		f.known[s.ID] = true
		f.news.Store(time.Now().UnixNano())
		f.open.Store(s.ID, s)
		f.active.Add(1)
		to := &noting{f.Printer.sink(s), &f.news}
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

func (f *following) follow(ctx context.Context, s Stream, from int64, to *noting) error {
	complete, err := f.copy(ctx, s, from, true, to)
	if complete {
		f.open.Delete(s.ID)
	}
	return errors.Join(err, to.end())
}

// A noting is a sink that notes when something came.
type noting struct {
	*sink
	news *atomic.Int64
}

func (n *noting) part(p part) error {
	n.news.Store(time.Now().UnixNano())
	return n.sink.part(p)
}

// ended says whether nothing more will come of a target that has come to its end.
func (f *following) ended() bool {
	return f.active.Load() == 0 || time.Since(time.Unix(0, f.news.Load())) > f.unended
}

// last says of which streams the end isn't known.
func (f *following) last() error {
	if len(f.known) == 0 {
		return f.nothing(f.Options)
	}
	f.open.Range(func(_, value any) bool {
		s := value.(Stream)
		_, _ = fmt.Fprintf(f.Warnings, "The end of %s of container %q of pod %q isn't known: %s is over, and has sent no more.\n", printable(s.Name), s.Container, s.Pod, f.Target)
		return true
	})
	return nil
}
