// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// What is printed.
var (
	steady = printing{bytes: 100, rate: 1000, lasts: 15 * time.Second}
	slow   = printing{bytes: 100, rate: 20, lasts: 85 * time.Second}
	flood  = printing{bytes: 64 << 10, lasts: 3 * time.Second}
	burst  = printing{bytes: 64 << 10, lasts: patience, total: 200e6}
)

const (
	// rounds is how often the sides take turns.
	rounds = 2
	// together is how many containers a pod has in which ends are watched.
	together = 10
	// apart is what lies between their ends.
	apart = 300 * time.Millisecond
	// unnoticed is how long it takes at most until a container knows of its follower.
	unnoticed = 45 * time.Second
)

// figures are all that was measured.
type figures struct {
	plain, own, away    []report // of writes, with the service there and away
	plainSeen, ownSeen  []time.Duration
	plainEnds, ownEnds  []time.Duration
	plainFlood, flood   float64         // MB/s
	shipped             []shipped       // at rising rates
	supervisor, shipper framework.Usage // each, when it prints; CPU is that of a second
	plainBurst, burst   kept            // what is printed faster than it is sent
	streams             []streaming     // the service alone
}

func (b *bench) measure(ctx context.Context) (f figures, err error) {
	for _, phase := range []struct {
		name string
		do   func(context.Context, *figures) error
	}{
		{"writes", b.writes},
		{"what is seen", b.visibility},
		{"ends", b.ends},
		{"throughput", b.throughput},
		{"a burst", b.burst},
		{"writes without the service", b.writesAlone},
		{"many streams", manyStreams},
	} {
		start := time.Now()
		if err := phase.do(ctx, &f); err != nil {
			return f, fmt.Errorf("measuring %s: %w", phase.name, err)
		}
		fmt.Fprintf(os.Stderr, "measured %s in %.0f s\n", phase.name, time.Since(start).Seconds())
	}
	return f, nil
}

func (b *bench) writes(ctx context.Context, f *figures) error {
	for range rounds {
		for namespace, reports := range map[string]*[]report{b.plain: &f.plain, b.own: &f.own} {
			_, r, err := b.print(ctx, namespace, steady)
			if err != nil {
				return err
			}
			*reports = append(*reports, r)
		}
	}
	return nil
}

// writesAlone is the same while the service is down.
func (b *bench) writesAlone(ctx context.Context, f *figures) error {
	if err := b.serviceThere(ctx, false); err != nil {
		return err
	}
	for range rounds {
		_, r, err := b.print(ctx, b.own, steady)
		if err != nil {
			return err
		}
		f.away = append(f.away, r)
	}
	return b.serviceThere(ctx, true)
}

// visibility follows a pod of each side, at the same time.
func (b *bench) visibility(ctx context.Context, f *figures) error {
	directory, err := os.MkdirTemp("", "bench-logs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	plugin, err := framework.BuildPlugin(ctx, directory)
	if err != nil {
		return err
	}
	plain, err := b.start(ctx, b.plain, slow)
	if err != nil {
		return err
	}
	own, err := b.start(ctx, b.own, slow)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		f.plainSeen, err = follow(exec.CommandContext(ctx, "kubectl", "logs", "-n", b.plain, plain, "-f"))
		return err
	})
	group.Go(func() (err error) {
		f.ownSeen, err = follow(plugin.Logs(ctx, "-n", b.own, own, "-f"))
		return err
	})
	return group.Wait()
}

// follow runs a command that prints lines until they end.
func follow(command *exec.Cmd) ([]time.Duration, error) {
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("running %q: %w", command.Args, err)
	}
	took, err := arrivals(out)
	if err != nil {
		_ = command.Process.Kill()
	}
	if ended := command.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("%w: %s", ended, stderr.String())
	}
	if err != nil {
		return nil, fmt.Errorf("running %q: %w", command.Args, err)
	}
	return took, nil
}

// arrivals tells how long lines took to be read that say when they were written. What
// was written before the container has to know that it is followed isn't counted.
func arrivals(from io.Reader) (took []time.Duration, err error) {
	began := time.Now()
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		now := time.Now()
		stamp, _, _ := strings.Cut(scanner.Text(), " ")
		nanoseconds, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading when %.50q was written: %w", scanner.Text(), err)
		}
		if written := time.Unix(0, nanoseconds); written.After(began.Add(unnoticed)) {
			took = append(took, now.Sub(written))
		}
	}
	slices.Sort(took)
	return took, scanner.Err()
}

// ends looks at what the containers of a pod take while they print, and how long after
// their command's last write they end.
func (b *bench) ends(ctx context.Context, f *figures) error {
	var all []printing
	for i := range together {
		all = append(all, printing{bytes: 100, rate: 100, lasts: 12*time.Second + time.Duration(i)*apart})
	}
	for range rounds {
		for namespace, delays := range map[string]*[]time.Duration{b.plain: &f.plainEnds, b.own: &f.ownEnds} {
			name, err := b.start(ctx, namespace, all...)
			if err != nil {
				return err
			}
			pids, err := containersOf(namespace, name)
			if err != nil {
				return err
			}
			if namespace == b.own {
				if err := watch(pids, f); err != nil {
					return err
				}
			}
			ended, err := ends(pids)
			if err != nil {
				return err
			}
			reports, err := b.end(ctx, namespace, name)
			if err != nil {
				return err
			}
			*delays = append(*delays, delaysOf(reports, ended)...)
		}
	}
	slices.Sort(f.plainEnds)
	slices.Sort(f.ownEnds)
	return nil
}

// delaysOf pairs the ends of commands and of containers, in order.
func delaysOf(reports []report, ended []time.Time) (delays []time.Duration) {
	slices.SortFunc(reports, func(a, b report) int { return a.Ended.Compare(b.Ended) })
	for i := range min(len(reports), len(ended)) {
		delays = append(delays, ended[i].Sub(reports[i].Ended))
	}
	return delays
}

// watch looks at supervisors and shippers that have work to do, for some seconds.
func watch(supervisors []int, f *figures) error {
	const lasts = 5 * time.Second
	time.Sleep(time.Second) // until what is started at the first byte has started
	shippers := shippersOf(supervisors)
	if len(shippers) != len(supervisors) {
		return fmt.Errorf("looking for the processes that send: there are %d for %d containers", len(shippers), len(supervisors))
	}
	for of, pids := range map[*framework.Usage][]int{&f.supervisor: supervisors, &f.shipper: shippers} {
		before, err := usage(pids)
		if err != nil {
			return err
		}
		*of = before
	}
	time.Sleep(lasts)
	for of, pids := range map[*framework.Usage][]int{&f.supervisor: supervisors, &f.shipper: shippers} {
		after, err := usage(pids)
		if err != nil {
			return err
		}
		n := int64(len(pids))
		*of = framework.Usage{
			RSSAnon: after.RSSAnon / n, RSS: after.RSS / n,
			CPU: time.Duration(float64(after.CPU-of.CPU) / float64(n) / lasts.Seconds()),
		}
	}
	return nil
}

// A shipped is what became of bytes that were printed at a rate, on one core.
type shipped struct {
	printed        float64 // MB/s
	bytes, dropped int64
	service        framework.Usage
}

// throughput is what goes through the whole chain.
func (b *bench) throughput(ctx context.Context, f *figures) error {
	for namespace, into := range map[string]*float64{b.plain: &f.plainFlood, b.own: &f.flood} {
		name, r, err := b.print(ctx, namespace, flood)
		if err != nil {
			return err
		}
		*into = r.rate()
		if _, err := b.wait(ctx, namespace, name, corev1.PodSucceeded); err != nil {
			return err
		}
	}
	for _, rate := range []float64{2, 5, 10, 20, 40, 60} {
		const chunk = 16 << 10
		before, err := serviceUsage()
		if err != nil {
			return err
		}
		name, r, err := b.print(ctx, b.own, printing{bytes: chunk, rate: rate * 1e6 / chunk, lasts: 6 * time.Second})
		if err != nil {
			return err
		}
		s := shipped{printed: r.rate(), bytes: r.Bytes}
		if s.dropped, err = b.dropped(ctx, b.own, name); err != nil {
			return err
		}
		if s.service, err = serviceUsage(); err != nil {
			return err
		}
		s.service.CPU -= before.CPU
		fmt.Fprintf(os.Stderr, "of %.0f MB/s that were asked for, %.1f were printed and %.1f stored\n", rate, s.printed, s.stored())
		f.shipped = append(f.shipped, s)
	}
	return nil
}

// A kept is what becomes of a burst.
type kept struct {
	report
	readable int64 // bytes that a reader gets once the container has ended
}

// burst prints much at full speed, as a tenant does who knows nothing of options.
func (b *bench) burst(ctx context.Context, f *figures) error {
	name, r, err := b.print(ctx, b.plain, burst)
	if err != nil {
		return err
	}
	log, err := b.cluster.Kube.CoreV1().Pods(b.plain).GetLogs(name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	f.plainBurst.report = r
	if f.plainBurst.readable, err = io.Copy(io.Discard, log); err != nil {
		return err
	}
	if name, r, err = b.print(ctx, b.waiting, burst); err != nil {
		return err
	}
	lost, err := b.dropped(ctx, b.waiting, name)
	f.burst = kept{report: r, readable: r.Bytes - lost}
	return err
}

// rate is in MB/s.
func (r report) rate() float64 { return float64(r.Bytes) / 1e6 / r.Took.Seconds() }
