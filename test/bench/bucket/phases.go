// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/program"
	"github.com/entrypointer/entrypointer/test/shipping"
)

// A plan is what is measured.
type plan struct {
	replicas int
	latency  time.Duration
	rates    []rate
	rateLast time.Duration // how long a rate is measured
	lapse    lapse
	bulk     bulk
	checked  int // how many streams of each rate are read again
	withLoki bool
	loki     string // a program, "" for one that is compiled
}

// A rate is how many streams print a line at an interval, in real time.
type rate struct {
	streams int
	every   time.Duration
	warm    time.Duration // how long they print before they are measured: each has sent a part by then
}

// A lapse is how many streams print a line a second by a clock that is faster than the real
// one: so parts, chunks and their joining come as fast.
type lapse struct {
	streams, speed int
	lasts          time.Duration
}

// A bulk is how many streams print how many bytes each at full speed.
type bulk struct {
	streams int
	size    int64
}

// A life is what some streams took from their creation on, until they are kept without any
// further work.
type life struct {
	created  tally // the creation of the streams
	kept     tally // all that came then
	lines    int   // that were sent
	parts    int   // in which the log service got them
	sent     int64 // bytes
	stored   int64 // bytes in the bucket at the end
	objects  int64
	failed   int
	duration time.Duration // of sending
	expired  tally         // the deletion of the streams after their retention, for the log service
}

// A load is what streams took in a span.
type load struct {
	rate
	system   string
	calls    tally
	requests int
	failed   int // of requests that were made again
	p50, p99 time.Duration
	cpu      float64 // of one process, in seconds of CPU time for a second
	memory   int64   // of the process that had most, in bytes
	creation time.Duration
}

// limits are those of the log service's ConfigMap: only what the machine can store bounds the
// bulk.
func limits(more map[string]string) map[string]string {
	all := map[string]string{"quota": "0", "streams": "0"}
	maps.Copy(all, more)
	return all
}

// ownRate measures streams of the log service in real time.
func ownRate(ctx context.Context, programs string, p plan, r rate) (l load, err error) {
	c, err := startCluster(ctx, programs, p.latency, p.replicas, limits(nil))
	if err != nil {
		return l, err
	}
	defer c.close()
	var record shipping.Recorder
	l.rate = r
	began := time.Now()
	list, err := c.createStreams(ctx, r.streams, &record)
	if err != nil {
		return l, err
	}
	l.creation, l.streams = time.Since(began), len(list)
	group, printing := errgroup.WithContext(ctx)
	pace := shipping.Pace{Every: r.every, Speed: 1, Began: time.Now(), Lasts: r.warm + p.rateLast}
	for _, s := range list {
		group.Go(func() error { return s.Print(printing, pace, &record) })
	}
	var processes []*program.Process
	for _, r := range c.replicas {
		processes = append(processes, r.Process)
	}
	err = l.measure(printing, p, c.store, processes, &record)
	if err := errors.Join(err, group.Wait()); err != nil {
		return l, err
	}
	return l, shipping.Check(ctx, reader, sample(list, p.checked))
}

// sample returns a number of streams, at equal distances.
func sample(list []*shipping.Stream, count int) (some []*shipping.Stream) {
	count = min(count, len(list))
	for i := range count {
		some = append(some, list[i*len(list)/count])
	}
	return some
}

// measure measures a span after streams have begun to print.
func (l *load) measure(ctx context.Context, p plan, s *store, processes []*program.Process, record *shipping.Recorder) error {
	shipping.Sleep(ctx, l.warm)
	calls, cpu, began, failed := s.proxy.calls(), time.Duration(0), time.Now(), record.Failures()
	for _, process := range processes {
		before, err := process.Usage()
		if err != nil {
			return err
		}
		cpu -= before.CPU
	}
	shipping.Sleep(ctx, p.rateLast)
	ended := time.Now()
	l.calls, l.failed = s.proxy.calls().minus(calls), record.Failures()-failed
	for _, process := range processes {
		after, err := process.Usage()
		if err != nil {
			return err
		}
		cpu += after.CPU
		l.memory = max(l.memory, after.HighestRSS)
	}
	l.cpu = cpu.Seconds() / ended.Sub(began).Seconds() / float64(len(processes))
	took := record.Between(began, ended)
	l.requests, l.p50, l.p99 = len(took), framework.Percentile(took, 50), framework.Percentile(took, 99)
	return ctx.Err()
}

// lokiRate is ownRate for Loki.
func lokiRate(ctx context.Context, programs string, p plan, r rate) (l load, err error) {
	server, err := startLoki(ctx, programs, p.latency)
	if err != nil {
		return l, err
	}
	defer server.close()
	var record shipping.Recorder
	l.rate = r
	group, printing := errgroup.WithContext(ctx)
	group.Go(func() error {
		return server.printAll(printing, server.agents(r.streams), shipping.Pace{Every: r.every, Speed: 1, Began: time.Now(), Lasts: r.warm + p.rateLast}, &record)
	})
	err = l.measure(printing, p, server.store, []*program.Process{server.process}, &record)
	return l, errors.Join(err, group.Wait())
}

// ownLapse measures the whole life of streams that print a line a second, faster than in real
// time, and their deletion.
func ownLapse(ctx context.Context, programs string, p plan) (l life, err error) {
	// What the service does at intervals comes as much faster.
	c, err := startCluster(ctx, programs, p.latency, p.replicas, limits(map[string]string{
		"linger": "1s", "interval": max(5*time.Minute/time.Duration(p.lapse.speed), time.Second).String(),
	}))
	if err != nil {
		return l, err
	}
	defer c.close()
	var record shipping.Recorder
	started := c.proxy.calls()
	list, err := c.createStreams(ctx, p.lapse.streams, &record)
	if err != nil {
		return l, err
	}
	before := c.proxy.calls()
	l.created = before.minus(started)
	group, printing := errgroup.WithContext(ctx)
	pace := shipping.Pace{Every: time.Second, Speed: p.lapse.speed, Began: time.Now(), Lasts: p.lapse.lasts, Ends: true}
	for _, s := range list {
		group.Go(func() error { return s.Print(printing, pace, &record) })
	}
	if err := group.Wait(); err != nil {
		return l, err
	}
	shipping.Sleep(ctx, time.Until(pace.Began.Add(pace.Lasts))) // without streams
	l.duration, l.parts = time.Since(pace.Began), record.Writes()
	if err := c.keep(ctx, list, before, &l); err != nil {
		return l, err
	}
	l.failed = record.Failures()
	l.expired, err = c.expire(ctx)
	return l, err
}

// alone measures streams without what the replicas take when there are none.
func alone(measure func(context.Context, string, plan) (life, error)) func(context.Context, string, plan) (life, error) {
	return func(ctx context.Context, programs string, p plan) (l life, err error) {
		idle := p
		idle.lapse.streams, idle.bulk.streams = 0, 0
		var without life
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			l, err = measure(ctx, programs, p)
			return err
		})
		group.Go(func() (err error) {
			without, err = measure(ctx, programs, idle)
			return err
		})
		if err := group.Wait(); err != nil {
			return l, err
		}
		log.Printf("replicas without streams: %+v", without)
		l.created, l.kept, l.expired = l.created.minus(without.created), l.kept.minus(without.kept), l.expired.minus(without.expired)
		return l, nil
	}
}

// keep has the replicas join what streams have, and measures what is kept. Then it reads all
// streams.
func (c *cluster) keep(ctx context.Context, list []*shipping.Stream, before tally, l *life) (err error) {
	c.proxy.latency.Store(0) // from here on, only calls count
	if err := c.settle(ctx); err != nil {
		return err
	}
	l.kept = c.proxy.calls().minus(before)
	if l.objects, l.stored, err = c.size(); err != nil {
		return err
	}
	if err := c.startReplica(ctx, 0); err != nil {
		return err
	}
	for _, s := range list {
		l.lines, l.sent = l.lines+s.Lines, l.sent+s.At
		s.Service = &c.replicas[0].Service
	}
	return shipping.Check(ctx, reader, list)
}

// expire lets the retention pass, has the replicas delete all streams, and counts what that
// takes.
func (c *cluster) expire(ctx context.Context) (taken tally, err error) {
	before := c.proxy.calls()
	for _, passed := range []time.Duration{retention, untilDeleted} {
		if _, err := c.sweepAfter(ctx, passed); err != nil {
			return taken, err
		}
	}
	taken = c.proxy.calls().minus(before)
	left, err := c.streamObjects()
	if err == nil && left > 0 {
		err = fmt.Errorf("deleting streams after their retention: %d objects are left", left)
	}
	return taken, err
}

const (
	// retention is more than the default one.
	retention = 31 * 24 * time.Hour
	// untilDeleted is more than the time for which a deletion can be undone.
	untilDeleted = 26 * time.Hour
)

// ownBulk measures the whole life of streams that are printed at full speed.
func ownBulk(ctx context.Context, programs string, p plan) (l life, err error) {
	c, err := startCluster(ctx, programs, p.latency, p.replicas, limits(nil))
	if err != nil {
		return l, err
	}
	defer c.close()
	var record shipping.Recorder
	started := c.proxy.calls()
	list, err := c.createStreams(ctx, p.bulk.streams, &record)
	if err != nil {
		return l, err
	}
	before, began := c.proxy.calls(), time.Now()
	l.created = before.minus(started)
	group, printing := errgroup.WithContext(ctx)
	for _, s := range list {
		group.Go(func() error { return s.Flood(printing, p.bulk.size, &record) })
	}
	if err := group.Wait(); err != nil {
		return l, err
	}
	l.duration, l.failed = time.Since(began), record.Failures()
	return l, c.keep(ctx, list, before, &l)
}

// lokiLapse is ownLapse for Loki, without the deletion.
func lokiLapse(ctx context.Context, programs string, p plan) (l life, err error) {
	server, err := startLoki(ctx, programs, p.latency)
	if err != nil {
		return l, err
	}
	defer server.close()
	var record shipping.Recorder
	before, began := server.proxy.calls(), time.Now()
	list := server.agents(p.lapse.streams)
	err = server.printAll(ctx, list, shipping.Pace{Every: time.Second, Speed: p.lapse.speed, Began: began, Lasts: p.lapse.lasts}, &record)
	if err != nil {
		return l, err
	}
	l.duration, l.failed = time.Since(began), record.Failures()
	for _, a := range list {
		for _, s := range a.streams {
			l.lines += s.lines
			for i := range s.lines {
				l.sent += int64(len(shipping.Line(began, s.number, i)))
			}
		}
	}
	return l, server.keep(ctx, before, &l)
}

// lokiBulk is ownBulk for Loki.
func lokiBulk(ctx context.Context, programs string, p plan) (l life, err error) {
	server, err := startLoki(ctx, programs, p.latency)
	if err != nil {
		return l, err
	}
	defer server.close()
	var record shipping.Recorder
	before, began := server.proxy.calls(), time.Now()
	group, pushing := errgroup.WithContext(ctx)
	list, sent := make([]*lokiStream, p.bulk.streams), make([]int64, p.bulk.streams)
	for i := range list {
		list[i] = &lokiStream{number: i}
		group.Go(func() (err error) {
			sent[i], err = server.flood(pushing, list[i], p.bulk.size, &record)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return l, err
	}
	l.duration, l.failed = time.Since(began), record.Failures()
	for i, s := range list {
		l.lines, l.sent = l.lines+s.lines, l.sent+sent[i]
	}
	return l, server.keep(ctx, before, &l)
}

// keep checks that Loki has all lines, has it write them to the bucket, and measures what is
// kept.
func (l *lokiServer) keep(ctx context.Context, before tally, of *life) error {
	found, err := l.count(ctx)
	if err != nil {
		return err
	}
	if found != of.lines {
		return fmt.Errorf("counting the lines in Loki: it has %d of %d", found, of.lines)
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	of.kept = l.proxy.calls().minus(before)
	of.objects, of.stored, err = l.size()
	return err
}

// machine describes this machine.
func machine() string { return fmt.Sprintf("%d cores of a virtual machine", runtime.NumCPU()) }
