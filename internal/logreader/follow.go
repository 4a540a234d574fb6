// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrypointer/entrypointer/internal/target"
)

const (
	// listInterval is the pause between two listings for new pods and containers.
	listInterval = 2 * time.Second
	// unendedGrace is after how much silence of a stream to find out whether its container
	// has ended, and then to stop waiting: its sender may have been killed.
	unendedGrace = 15 * time.Second
)

// A follower prints streams while they are written.
type follower struct {
	*Client
	Options
	listInterval, unendedGrace time.Duration

	read       map[string]readBefore // streams, by ID
	known      map[string]*followed  // by ID
	finishedAt time.Time             // when the target was first seen to have ended
	active     atomic.Int64
	cutOff     atomic.Int64 // how many streams were cut off
	failed     chan error
	group      sync.WaitGroup
}

// A lockedWriter passes on one write at a time.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p) //nolint:wrapcheck // a writer adds nothing
}

// A followed is a stream that is followed.
type followed struct {
	Stream
	stop    context.CancelFunc // ends the wait for more
	stopped bool
	state   containerState // when stop was called

	lastNews atomic.Int64 // when a part came, or the container was seen to run, in Unix nanoseconds
	ended    atomic.Bool  // nothing is left to stop

	at      int64  // the offset behind the last part
	missing []part // what was reported as missing
}

func newFollower(c *Client, o Options) *follower {
	if o.Printer.Prefix == nil && (o.Target.LogLabel() != "" || o.Selector != nil) {
		o.Printer.Prefix = new(true) // more containers may start, and the format shouldn't change then
	}
	o.Warnings = &lockedWriter{to: o.Warnings} // lists and streams warn at once
	return &follower{Client: c, Options: o, listInterval: listInterval, unendedGrace: unendedGrace, read: map[string]readBefore{}, known: map[string]*followed{}, failed: make(chan error, 1)}
}

// run follows until the target has ended, and its streams are complete or were cut off. A
// target that the user may not get counts as ended, so that following ends.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer cancel()
	if f.Target.Name == target.Pod { // other pods may come with other containers
		if err := f.checkContainer(ctx, f.Options); err != nil {
			return err
		}
	}
	tail := f.Tail
	for {
		// In this order, so that a finished target's streams are all listed.
		state, err := f.targetState(ctx, f.Target)
		if err == nil {
			err = f.start(ctx, tail)
		}
		if err != nil && (len(f.known) == 0 || isFinal(err)) {
			return err
		}
		if err == nil {
			tail = -1 // later streams are new, so print them from the start
			f.stopSilent(ctx, state)
		}
		if state != stateRuns && err == nil && f.active.Load() == 0 {
			return f.end(ctx)
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

// end returns the error for a target that has ended.
func (f *follower) end(ctx context.Context) error {
	l, err := f.listing(ctx, f.Options)
	if err != nil {
		return err
	}
	lost, err := f.lostRuns(ctx, f.Options, l)
	if err != nil {
		return err
	}
	if len(f.known)+len(lost) == 0 {
		return f.noLogsError(ctx, f.Options)
	}
	return withLost(cutOffError(int(f.cutOff.Load())), lost, f.warn)
}

// start begins to follow the streams that are new.
func (f *follower) start(ctx context.Context, tail int) error {
	streams, err := f.streams(ctx, f.Options)
	if err != nil {
		return err
	}
	for _, s := range streams {
		if f.known[s.ID] != nil {
			continue
		}
		before, wasRead := f.read[s.ID]
		if before.whole {
			f.known[s.ID] = &followed{Stream: s, stopped: true}
			continue
		}
		o := f.Options
		o.Tail = tail
		from := before.to
		if !wasRead {
			if from, err = f.startOffset(ctx, s, o); err != nil {
				return err
			}
		}
		waiting, stop := context.WithCancel(ctx)
		to := &followed{Stream: s, stop: stop, at: from}
		to.lastNews.Store(time.Now().UnixNano())
		f.known[s.ID] = to
		f.active.Add(1)
		sink := &notingSink{f.Printer.sink(s), to}
		f.group.Go(func() {
			defer f.active.Add(-1)
			defer stop()
			if err := f.follow(ctx, waiting, to, sink); err != nil && ctx.Err() == nil {
				select {
				case f.failed <- err:
				default:
				}
			}
			to.ended.Store(true)
		})
	}
	return nil
}

// follow prints a stream until it is complete. Once waiting is over, it prints the rest
// without waiting for more.
func (f *follower) follow(ctx, waiting context.Context, s *followed, to *notingSink) error {
	complete, err := f.copyParts(waiting, s.Stream, s.at, true, to)
	if !complete && waiting.Err() != nil && ctx.Err() == nil {
		complete, err = f.copyRest(ctx, s.Stream, s.at, to)
		if !complete && err == nil {
			err = f.noteCutOff(s, to)
		}
	}
	if err == nil {
		err = f.warnLate(ctx, s)
	}
	return errors.Join(err, to.finish())
}

// noteCutOff warns about a stream without an end.
func (f *follower) noteCutOff(s *followed, to *notingSink) error {
	f.warn(s.cutOffWarning(s.state))
	if s.state != stateEnded {
		return nil
	}
	f.cutOff.Add(1)
	if !f.Events {
		return nil
	}
	return to.part(part{From: s.at, To: s.at, cutOff: true})
}

func (f *follower) warn(text string) {
	_, _ = fmt.Fprintln(f.Warnings, text)
}

// warnLate warns about bytes that have arrived after they were reported as missing.
func (f *follower) warnLate(ctx context.Context, s *followed) error {
	if len(s.missing) == 0 {
		return nil
	}
	state, err := f.state(ctx, s.ID)
	if err != nil {
		return err
	}
	var late int64
	for _, m := range s.missing {
		for _, stored := range state.stored {
			late += max(0, min(m.To, stored.to)-max(m.From, stored.from))
		}
	}
	if late > 0 {
		f.warn(fmt.Sprintf("%d bytes of %s have arrived after they were reported as missing: read the log again to see them.", late, s))
	}
	return nil
}

// A notingSink is a sink that notes the parts of a stream.
type notingSink struct {
	*sink
	stream *followed
}

func (n *notingSink) part(p part) error {
	n.stream.lastNews.Store(time.Now().UnixNano())
	n.stream.at = p.To
	if p.Data == nil && !p.dropped && !p.deleted && !p.cutOff {
		n.stream.missing = append(n.stream.missing, p)
	}
	return n.sink.part(p)
}

// stopSilent ends the wait for more of the streams that are silent, and whose containers
// have ended. If the target has ended, all containers have.
func (f *follower) stopSilent(ctx context.Context, target containerState) {
	if target == stateRuns {
		f.finishedAt = time.Time{}
	} else if f.finishedAt.IsZero() {
		f.finishedAt = time.Now()
	}
	states := map[string]containerState{} // by pod, container and start
	for _, s := range f.known {
		since := time.Unix(0, s.lastNews.Load())
		if f.finishedAt.After(since) {
			since = f.finishedAt
		}
		if s.stopped || s.ended.Load() || time.Since(since) < f.unendedGrace {
			continue
		}
		if s.state = target; target == stateRuns {
			s.state = f.runState(ctx, s.Stream, states)
		}
		if s.stopped = s.state == stateEnded || target != stateRuns; s.stopped {
			s.stop()
		} else {
			s.lastNews.Store(time.Now().UnixNano())
		}
	}
}

// runState is containerState, which it asks once for all streams of a run of a container.
// An error counts as unknown.
func (f *follower) runState(ctx context.Context, s Stream, known map[string]containerState) containerState {
	run := s.PodUID + "/" + s.Container + "/" + s.Start
	state, is := known[run]
	if !is {
		state, _ = f.containerState(ctx, s)
		known[run] = state
	}
	return state
}
