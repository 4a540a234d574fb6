// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Bucket measures what logs cost in an object store, with real programs: replicas of the log
// service, and Loki beside them, keep the lines of simulated containers in an S3 server that
// is as far away as S3. A proxy counts the requests. It needs no cluster:
//
//	go run ./test/bench/bucket -update
//
// test/bench/calls counts the same requests of the log service over a simulated month, with a
// bucket in memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the tables into docs/benchmarks.md")
	short := flag.Bool("short", false, "measure few streams for seconds, to try the bench")
	without := flag.Bool("without-loki", false, "measure the log service alone; Loki takes four to nine minutes to compile")
	only := flag.String("only", "", "measure one part: bulk, chatty or loads")
	most := flag.Int("most", 1e6, "measure loads of at most so many `streams`, on a machine that is small or busy")
	binary := flag.String("loki", "", "a `program` of Loki, which isn't compiled then")
	flag.Parse()
	p := whole
	if *short {
		p = brief
	}
	p.withLoki, p.loki = !*without, *binary
	p.rates = slices.DeleteFunc(slices.Clone(p.rates), func(r rate) bool { return r.streams > *most })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, p, *only, *update)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// whole is what the tables have.
var whole = plan{
	replicas: 2, latency: 20 * time.Millisecond, checked: 200, rateLast: 30 * time.Second,
	// A line a second of 100,000 streams would be 3,300 writes a second, which two cores
	// don't send, take and store. With a line in five minutes, each line is a part.
	rates: []rate{{1000, time.Second, 45 * time.Second}, {10_000, time.Second, 45 * time.Second}, {100_000, 5 * time.Minute, 5 * time.Minute}},
	lapse: lapse{streams: 50, speed: 30, lasts: 6 * time.Minute},
	bulk:  bulk{streams: 4, size: 100e6},
}

// brief tries the same in seconds.
var brief = plan{
	replicas: 2, latency: time.Millisecond, checked: 200, rateLast: 3 * time.Second,
	rates: []rate{{200, time.Second, 3 * time.Second}},
	lapse: lapse{streams: 20, speed: 30, lasts: 5 * time.Second},
	bulk:  bulk{streams: 4, size: 3e6},
}

func run(ctx context.Context, p plan, only string, update bool) error {
	programs, err := os.MkdirTemp("", "bench-bucket-programs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if err := compile(ctx, programs, p); err != nil {
		return err
	}
	for _, part := range parts {
		if only != "" && only != part.name {
			continue
		}
		err := part.measure(ctx, programs, p, func(table string) error {
			fmt.Printf("\n%s", table)
			if !update {
				return nil
			}
			return framework.ReplaceIn(framework.Benchmarks, "bucket-"+part.name, table)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A part of the bench makes a table, and calls write with it.
type part struct {
	name    string
	measure func(ctx context.Context, programs string, p plan, write func(table string) error) error
}

// parts are all of them, in the order of the page.
var parts = []part{
	{"bulk", func(ctx context.Context, programs string, p plan, write func(string) error) error {
		found, err := measureBulk(ctx, programs, p)
		if err != nil {
			return err
		}
		return write(renderBulk(p, found))
	}},
	{"chatty", func(ctx context.Context, programs string, p plan, write func(string) error) error {
		found, err := measureLapse(ctx, programs, p)
		if err != nil {
			return err
		}
		return write(renderChatty(p, found))
	}},
	{"loads", func(ctx context.Context, programs string, p plan, write func(string) error) error {
		_, err := measureLoads(ctx, programs, p, func(loads []load) error { return write(renderLoads(p, loads)) })
		return err
	}},
}

// compile puts the programs that the plan needs into a directory.
func compile(ctx context.Context, programs string, p plan) error {
	build := map[string]source{"logs": service, "versitygw": versitygw}
	switch {
	case p.withLoki && p.loki != "":
		path, err := filepath.Abs(p.loki)
		if err == nil {
			err = os.Symlink(path, filepath.Join(programs, "loki"))
		}
		if err != nil {
			return err
		}
	case p.withLoki:
		build["loki"] = loki
	}
	for name, source := range build {
		log.Printf("compiling %s", name)
		if err := source.build(ctx, filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	return nil
}

// A system is what is measured in the same ways as others.
type system struct {
	name  string
	rate  func(context.Context, string, plan, rate) (load, error)
	lapse func(context.Context, string, plan) (life, error)
	bulk  func(context.Context, string, plan) (life, error)
}

func (p plan) systems() []system {
	list := []system{{fmt.Sprintf("**log service**, %d replicas", p.replicas), ownRate, alone(ownLapse), alone(ownBulk)}}
	if p.withLoki {
		list = append(list, system{"Loki, one process", lokiRate, lokiLapse, lokiBulk})
	}
	return list
}

// measureLapse measures what streams with a line a second take of each system, all at the same
// time: only calls count, so one doesn't disturb another.
func measureLapse(ctx context.Context, programs string, p plan) ([]life, error) {
	systems := p.systems()
	found := make([]life, len(systems))
	log.Printf("%d streams with a line a second, %d times as fast", p.lapse.streams, p.lapse.speed)
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range systems {
		group.Go(func() (err error) {
			if found[i], err = s.lapse(ctx, programs, p); err != nil {
				return fmt.Errorf("measuring streams with a line a second: %s: %w", s.name, err)
			}
			log.Printf("%s: %+v", s.name, found[i])
			return nil
		})
	}
	return found, group.Wait()
}

// measureBulk measures what streams at full speed take of each system.
func measureBulk(ctx context.Context, programs string, p plan) (found []life, err error) {
	for _, s := range p.systems() {
		log.Printf("%s: %d streams at full speed", s.name, p.bulk.streams)
		l, err := s.bulk(ctx, programs, p)
		if err != nil {
			return nil, fmt.Errorf("measuring streams at full speed: %s: %w", s.name, err)
		}
		log.Printf("%+v", l)
		found = append(found, l)
	}
	return found, nil
}

// measureLoads measures what numbers of streams take, and calls done after each.
func measureLoads(ctx context.Context, programs string, p plan, done func([]load) error) (loads []load, err error) {
	for _, rate := range p.rates {
		for _, s := range p.systems() {
			log.Printf("%s: %d streams with a line in %v", s.name, rate.streams, rate.every)
			l, err := s.rate(ctx, programs, p, rate)
			if err != nil {
				return nil, fmt.Errorf("measuring %d streams: %s: %w", rate.streams, s.name, err)
			}
			log.Printf("%+v", l)
			l.system = s.name
			loads = append(loads, l)
			if err := done(loads); err != nil {
				return nil, err
			}
		}
	}
	return loads, nil
}
