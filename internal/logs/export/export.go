// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package export sends stored logs on, by OTLP over HTTP: to an OpenTelemetry collector, or
// to what takes the same protocol, such as Loki.
//
// The replica that stores bytes of a stream also sends them, from the storage, so nothing
// that is stored waits for the destination. One replica at a time has a stream (claims.go).
// Streams that nobody sends, after a crash for instance, are found by scans (scan.go). A
// record may be sent twice, with the same ID. Bytes that can't be sent have a record too.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// workers is how many requests are sent at the same time.
	workers = 8
	// maxTurn bounds what a worker does at a time, with the requests for it.
	maxTurn = 3 * time.Minute
	// maxTurnBytes and maxTurnTime bound the turn of a stream.
	maxTurnBytes, maxTurnTime = 4 << 20, 20 * time.Second
	// collectTime bounds the time in which a worker reads streams for one request.
	collectTime = time.Second
	// soon is the time between a write and the turn of a stream that was silent, so that a few
	// lines are sent together.
	soon = time.Second
	// heldPause is the time until a stream of another replica is looked at again, failedPause
	// after the storage has failed, and refusedPause after the destination has taken nothing.
	heldPause, failedPause, refusedPause = 3 * time.Minute, 10 * time.Second, 5 * time.Minute
	// partialWait is how long the end of a line is waited for.
	partialWait = time.Minute
	// idleTime is after how long without new bytes a stream is at rest.
	idleTime = 2 * time.Minute
	// maxDepth bounds how often a refused request is halved.
	maxDepth = 6
	// endTime bounds the notes at the end of the service, up to where streams were sent.
	endTime, endWriters = 10 * time.Second, 16
	// MaxTimeout bounds Options.Timeout.
	MaxTimeout = time.Minute
)

// The times between two looks at a stream, each of which lists it: on a bucket, this costs
// money.
const (
	PauseOnBucket = time.Minute
	PauseOnVolume = 5 * time.Second
)

// Options say where logs are sent.
type Options struct {
	// URL is where requests are sent: that of a collector ends with /v1/logs, that of Loki with
	// /otlp/v1/logs.
	URL string
	// Headers is a file with headers of the requests, "" for none, and CA a file with
	// certificates that the destination's is verified by, "" for those of the system.
	Headers, CA string
	// Timeout bounds a request.
	Timeout time.Duration
	// Namespaces are those whose logs are sent, nil for all.
	Namespaces []string
	// Since leaves out streams that were created earlier.
	Since time.Time
	// Pause is the time between two looks at a stream.
	Pause time.Duration
	// Transport is what sends requests, nil for HTTP by the other options.
	Transport http.RoundTripper
}

// An Exporter sends logs on.
type Exporter struct {
	options Options
	store   *streams.Store
	claims  claims
	client  *client
	logger  *slog.Logger
	metrics *metrics
	queue   *queue
	gate    *gate
	now     func() time.Time
	signal  signal
	// fullEvery is how many scans come to one of all streams. A stream without a claim that is
	// older than unclaimed isn't looked for, if that isn't 0.
	fullEvery int
	unclaimed time.Duration
	only      string // the name of the streams that matter, "" for all
}

// New returns an exporter of the lines in a store, whose bucket it uses as well. The error says
// which option is wrong.
func New(store *streams.Store, bucket storage.Bucket, o Options, logger *slog.Logger, registry prometheus.Registerer) (*Exporter, error) {
	e, err := newExporter(store, claims{bucket, ofLines, time.Now}, o, logger)
	if err != nil {
		return nil, err
	}
	e.signal, e.fullEvery, e.metrics = lines{e}, fullEvery, newMetrics(registry, e.queue, time.Now)
	return e, nil
}

// fullEvery is for lines: with a scan an hour, all streams are looked at once a day.
const fullEvery = 24

func newExporter(store *streams.Store, of claims, o Options, logger *slog.Logger) (*Exporter, error) {
	if o.Timeout <= 0 || o.Timeout > MaxTimeout {
		return nil, fmt.Errorf("sending with a timeout of %v: use one of at most %v", o.Timeout, MaxTimeout)
	}
	for _, namespace := range o.Namespaces {
		if err := streams.CheckNamespace(namespace); err != nil {
			return nil, fmt.Errorf("sending the logs of some namespaces: %w", err)
		}
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return &Exporter{
		options: o, store: store, claims: of, client: c, logger: logger.With("destination", c.host),
		queue: newQueue(time.Now), gate: newGate(time.Now), now: time.Now,
	}, nil
}

// wants reports whether the logs of a namespace are sent.
func (e *Exporter) wants(namespace string) bool {
	return e.options.Namespaces == nil || slices.Contains(e.options.Namespaces, namespace)
}

// Wrote notes that bytes of a stream up to an offset were stored, or its end. It never waits.
func (e *Exporter) Wrote(id string, source streams.Source, to int64) {
	if e.wants(source.Namespace) && (e.only == "" || e.only == source.Name) && !e.queue.wrote(id, source.Namespace, source.Pod, to, e.options.Pause) {
		e.metrics.unknown.Inc()
	}
}

// Exporters are all that send what is stored.
type Exporters []*Exporter

// Wrote is Wrote of each.
func (all Exporters) Wrote(id string, source streams.Source, to int64) {
	for _, e := range all {
		e.Wrote(id, source, to)
	}
}

// Run sends logs until ctx is done.
func (e *Exporter) Run(ctx context.Context) error {
	group := errgroup.Group{}
	for range workers {
		group.Go(func() error { e.work(ctx); return nil })
	}
	group.Go(func() error { e.scan(ctx); return nil })
	_ = group.Wait() // they return no errors
	e.end(context.WithoutCancel(ctx))
	return nil
}

// scan scans at intervals until ctx is done. Some scans look at all streams that weren't sent
// to their end, because bytes may have been stored just before a crash: the first one, the
// one after it, when another replica may have stopped since, and one a day.
func (e *Exporter) scan(ctx context.Context) {
	for number := 0; ; {
		s := scan{Exporter: e, all: number < 2 || number%e.fullEvery == 0}
		err := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := scanPause
		if err != nil {
			e.logger.Error("Streams that are to be sent on can't be looked for", "error", err)
		}
		if err != nil || s.full {
			pause = soonPause
		}
		if err == nil && !s.full {
			number++
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause/5)): //nolint:gosec // G404: no secret
		}
	}
}

// work lets streams have their turns until ctx is done.
func (e *Exporter) work(ctx context.Context) {
	for ctx.Err() == nil {
		may, tries, wait, opened := e.gate.enter()
		if !may {
			select {
			case <-ctx.Done():
			case <-opened:
			case <-time.After(wait):
			}
			continue
		}
		j, err := e.queue.next(ctx)
		if err == nil {
			e.round(ctx, j, tries)
		}
		if tries {
			e.gate.leave()
		}
	}
}

// An outcome is how the turn of a stream has ended.
type outcome struct {
	job  *job
	end  int64 // the offset up to which it was read
	more bool  // whether there are more bytes now
	err  error // io.EOF for a stream that was read to its end

	// isAll says that all before end is sent once the batch is. With errGoesOn, the next turn
	// comes after a pause.
	isAll bool
	ended *ended
	pause time.Duration
}

// errGoesOn says that a stream has ended, and what it is about hasn't.
var errGoesOn = errors.New("it goes on")

// round lets some streams have their turns, and sends what they have.
func (e *Exporter) round(ctx context.Context, j *job, alone bool) {
	limited, cancel := context.WithTimeout(ctx, maxTurn)
	defer cancel()
	b, began := &batch{}, e.now()
	var outcomes []outcome
	var failed error
	for j != nil && failed == nil {
		o := e.turn(limited, j, b)
		outcomes, j = append(outcomes, o), nil
		if isDelay(o.err) {
			failed = o.err
		} else if !alone && !b.isFull() && len(outcomes) < maxBatchStreams && e.now().Sub(began) < collectTime {
			j, _ = e.queue.tryNext()
		}
	}
	if failed == nil {
		failed = e.flush(limited, b)
	}
	for _, o := range outcomes {
		e.settle(ctx, o, failed)
	}
}

func isDelay(err error) bool {
	var d *delay
	return errors.As(err, &d)
}

// flush sends a batch, and empties it.
func (e *Exporter) flush(ctx context.Context, b *batch) error {
	items := b.items
	*b = batch{}
	if len(items) == 0 {
		return nil
	}
	return e.deliver(ctx, items, 0)
}

// deliver sends items until the destination has taken or refused each. Of a request that is
// refused, the streams are sent one by one, and then halves of what is refused.
func (e *Exporter) deliver(ctx context.Context, items []item, depth int) error {
	if items[0].job.refuses && items[len(items)-1].job == items[0].job {
		return nil
	}
	rejected, why, err := e.attempt(ctx, items)
	var no *refusal
	switch {
	case err == nil:
		e.took(items, rejected, why)
		return nil
	case !errors.As(err, &no):
		return err
	}
	for _, part := range parts(items, depth) {
		if len(part) == len(items) {
			return e.giveUp(ctx, items, no)
		}
		if err := e.deliver(ctx, part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// parts divides items by streams, or in halves. It returns all of them if they aren't to be
// divided any more.
func parts(items []item, depth int) (list [][]item) {
	if items[0].job != items[len(items)-1].job {
		from := 0
		for at := range items {
			if at > 0 && items[at].job != items[at-1].job {
				list, from = append(list, items[from:at]), at
			}
		}
		return append(list, items[from:])
	}
	if len(items) == 1 || depth >= maxDepth {
		return [][]item{items}
	}
	return [][]item{items[:len(items)/2], items[len(items)/2:]}
}

// giveUp sends a record of what was refused instead. If the destination refuses that as well,
// it takes nothing of the stream, so nothing is given up.
func (e *Exporter) giveUp(ctx context.Context, items []item, no *refusal) error {
	j := items[0].job
	if instead := e.signal.refusals(items, no.why); len(instead) > 0 {
		_, _, err := e.attempt(ctx, instead)
		if errors.As(err, &no) {
			j.refuses = true
			e.logger.Error("The destination takes nothing of a stream, not even a record of what it has refused", "namespace", j.namespace, "pod", j.pod, "reason", no.why)
			return nil
		}
		if err != nil {
			return err
		}
	}
	e.logger.Warn("The destination has refused records or spans", "namespace", j.namespace, "pod", j.pod, "number", len(items), "reason", no.why)
	e.metrics.gaps.WithLabelValues(gapRefused).Inc()
	e.metrics.refused.Add(float64(len(items)))
	advance(items)
	return nil
}

// attempt sends items once.
func (e *Exporter) attempt(ctx context.Context, items []item) (rejected int64, why string, err error) {
	rejected, why, err = e.client.send(ctx, e.signal.request(items, e.now()))
	var no *refusal
	var later *delay
	switch {
	case errors.As(err, &later):
		e.metrics.failures.Inc()
		until := e.gate.failed(later.after)
		e.logger.Warn("Nothing can be sent on now. It will be sent again", "reason", later.why, "notBefore", until)
	case err == nil || errors.As(err, &no):
		e.gate.worked()
	case ctx.Err() != nil:
		err = &delay{why: "sending took too long"}
	}
	return min(rejected, int64(len(items))), why, err
}

// took notes what the destination has taken.
func (e *Exporter) took(items []item, rejected int64, why string) {
	if rejected > 0 {
		e.metrics.refused.Add(float64(rejected))
		e.logger.Warn("The destination has refused some records or spans of a request", "number", rejected, "of", len(items), "reason", why)
	}
	e.metrics.records.Add(float64(int64(len(items)) - rejected))
	for _, i := range items {
		if i.gap == "" {
			e.metrics.bytes.Add(float64(i.Len()))
		} else {
			e.metrics.gaps.WithLabelValues(i.gap).Inc()
		}
	}
	advance(items)
}

// advance notes that streams were sent up to the last of some items. Those of a stream come
// in their order, so all before were sent.
func advance(items []item) {
	for _, i := range items {
		i.job.offset, i.job.refuses = max(i.job.offset, i.To), false
	}
}

// end notes up to where streams were sent, so that other replicas go on from there at once.
func (e *Exporter) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(endWriters)
	for _, j := range e.queue.all() {
		group.Go(func() error {
			if ctx.Err() == nil {
				_ = e.claims.end(ctx, j, atRest) // what isn't noted is sent again
			}
			return nil
		})
	}
	_ = group.Wait() // no errors
}
