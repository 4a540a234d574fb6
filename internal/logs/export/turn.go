// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A signal is what is made of streams and sent.
type signal interface {
	// turn adds what a stream has to a batch, and sends the batch whenever it is full.
	turn(ctx context.Context, j *job, source streams.Source, b *batch) outcome
	// request encodes items.
	request(items []item, now time.Time) proto.Message
	// refusals returns what is sent instead of what the destination has refused, nil for nothing.
	refusals(items []item, why string) []item
}

// lines are the records of all streams.
type lines struct{ *Exporter }

// turn lets a stream have its turn.
func (e *Exporter) turn(ctx context.Context, j *job, b *batch) outcome {
	j.refuses = false
	source, err := e.store.Source(ctx, j.id)
	if err != nil {
		return outcome{job: j, end: j.offset, err: err}
	}
	return e.signal.turn(ctx, j, source, b)
}

// turn implements signal.
func (e lines) turn(ctx context.Context, j *job, source streams.Source, b *batch) outcome {
	err := e.hold(ctx, j)
	if err == nil {
		err = e.describe(ctx, j, source)
	}
	if err != nil {
		return outcome{job: j, end: j.offset, err: err}
	}
	return e.read(ctx, j, b)
}

// hold makes sure that this replica may send a stream for maxTurn.
func (e *Exporter) hold(ctx context.Context, j *job) error {
	if e.claims.isHeld(j) {
		return nil
	}
	offset, err := e.claims.take(ctx, j, e.queue.writtenTo(j))
	if err != nil {
		return err
	}
	j.offset = max(j.offset, offset)
	if j.isYoung || e.options.Since.IsZero() {
		return nil
	}
	created, err := e.store.Created(ctx, j.id)
	if err == nil && created.Before(e.options.Since) {
		j.offset, err = streams.MaxOffset, errOld // so none of it counts as unsent
	}
	j.isYoung = err == nil
	return err
}

// errRefused says that the destination takes nothing of a stream.
var errRefused = errors.New("the destination takes nothing of the stream")

// errOld says that a stream was created before Options.Since.
var errOld = errors.New("the stream is older than those that are sent")

// describe prepares what the records of a stream have in common.
func (e lines) describe(ctx context.Context, j *job, source streams.Source) error {
	if err := e.count(ctx, j, source); err != nil {
		return err
	}
	j.name, j.resource, j.trace = source.Name, resource(source, j.restarts), traceOf(source)
	return nil
}

// count counts the restarts of a stream's container, once.
func (e *Exporter) count(ctx context.Context, j *job, source streams.Source) error {
	if j.counted {
		return nil
	}
	restarts, known, err := e.store.Restarts(ctx, source)
	if err != nil {
		return err
	}
	if j.restarts, j.counted = restarts, true; !known {
		j.restarts = -1
	}
	return nil
}

// read reads a stream from the offset up to which it was sent.
func (e lines) read(ctx context.Context, j *job, b *batch) (o outcome) {
	o = outcome{job: j, end: j.offset}
	add := func(r record) error {
		o.end = r.To
		b.add(j, r)
		if !b.isFull() {
			return nil
		}
		err := e.flush(ctx, b)
		if err == nil && j.refuses {
			err = errRefused // or what comes next would be sent without what was refused
		}
		return err
	}
	store, release := e.store.WithMemoryHold(j.namespace)
	defer release()
	reader := store.Follower(j.id, j.offset)
	defer reader.Close()
	c, began, length := &cutter{}, e.now(), int64(0)
	for !o.more && o.err == nil {
		part, err := reader.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			if o.err = c.flush(false, add); o.err == nil {
				o.err = io.EOF
			}
		case errors.Is(err, streams.ErrNotYet):
			o.err = e.holdBack(j, c, add)
			return o
		case err != nil:
			o.err = err
		default:
			o.err = c.cut(part, add)
			length += int64(len(part.Data))
			o.more = length >= maxTurnBytes || e.now().Sub(began) >= maxTurnTime
		}
	}
	return o
}

// holdBack waits for the end of a line, but not for long.
func (e lines) holdBack(j *job, c *cutter, add func(record) error) error {
	if len(c.line) == 0 {
		j.heldFrom = time.Time{}
		return nil
	}
	if j.heldFrom.IsZero() || j.heldAt != c.from {
		j.heldAt, j.heldFrom = c.from, e.now()
	}
	if e.now().Sub(j.heldFrom) < partialWait {
		return nil
	}
	j.heldFrom = time.Time{}
	return c.flush(true, add)
}

// settle decides when a stream has its next turn. The error is why the batch that has its
// last records wasn't sent.
func (e *Exporter) settle(ctx context.Context, o outcome, failed error) {
	j, now := o.job, e.now()
	j.resource = nil
	o.note(failed)
	switch {
	case errors.Is(o.err, streams.ErrNoStream), errors.Is(o.err, errDone):
		e.queue.done(j, true)
	case errors.Is(o.err, errHeld):
		// Of a scan's streams, only those matter whose holder doesn't go on.
		if before := j.others; before != 0 && before != j.claim.number && e.queue.writtenTo(j) == 0 {
			e.queue.done(j, true)
			return
		}
		j.others = j.claim.number
		e.queue.again(j, now.Add(heldPause), true)
	case errors.Is(o.err, errOld):
		e.finish(ctx, j, now)
	case j.refuses:
		e.queue.again(j, now.Add(refusedPause), true)
	case failed != nil:
		e.renew(ctx, j)
		e.queue.again(j, now.Add(firstPause), true) // the gate lets nobody send before it opens
	case errors.Is(o.err, io.EOF) && j.offset >= o.end:
		e.finish(ctx, j, now)
	case errors.Is(o.err, errGoesOn):
		e.goOn(ctx, j, now.Add(o.pause))
	case o.err != nil:
		if ctx.Err() == nil {
			e.logger.Warn("A stream that is to be sent on can't be read now", "namespace", j.namespace, "pod", j.pod, "error", o.err)
		}
		e.queue.again(j, now.Add(failedPause), true)
	default:
		e.renew(ctx, j)
		e.wait(ctx, o, now)
	}
}

// goOn has a job wait for what its stream is about, or gives it up to a scan if too many do.
func (e *Exporter) goOn(ctx context.Context, j *job, due time.Time) {
	if !e.queue.mayGoOn(j) && e.claims.end(ctx, j, atRest) == nil && e.queue.done(j, false) {
		return
	}
	e.renew(ctx, j)
	e.queue.again(j, due, true)
}

// note notes what was sent if all of a turn was.
func (o outcome) note(failed error) {
	if failed == nil && o.isAll {
		o.job.offset, o.job.ended = max(o.job.offset, o.end), o.ended
	}
}

// finish notes that all of a stream was sent.
func (e *Exporter) finish(ctx context.Context, j *job, now time.Time) {
	if err := e.claims.end(ctx, j, isDone); err != nil {
		e.logger.Warn("That a stream was sent can't be noted, and will be tried again", "error", err)
		e.queue.again(j, now.Add(failedPause), true)
		return
	}
	e.queue.done(j, true)
}

func (e *Exporter) renew(ctx context.Context, j *job) {
	if err := e.claims.renew(ctx, j); err != nil && ctx.Err() == nil {
		e.logger.Warn("Up to where a stream was sent can't be noted", "error", err)
	}
}

// wait decides when a stream has its next turn that has given all it had, or as much as a
// turn allows.
func (e *Exporter) wait(ctx context.Context, o outcome, now time.Time) {
	j := o.job
	switch {
	case o.more:
		e.queue.again(j, now, false)
		return
	case !j.heldFrom.IsZero() || e.queue.writtenTo(j) > j.offset:
		j.idle = time.Time{}
		e.queue.again(j, now.Add(e.options.Pause), false)
		return
	case j.idle.IsZero() || j.idleAt != j.offset:
		j.idle, j.idleAt = now, j.offset
	case now.Sub(j.idle) >= idleTime:
		if err := e.claims.end(ctx, j, atRest); err == nil && e.queue.done(j, false) {
			return
		}
	}
	e.queue.again(j, now.Add(idleTime), false)
}
