// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// render makes the tables: what a container notices, and what streams cost the service.
func render(f figures) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row("", "unwrapped, `kubectl logs`", "`logs: stream`", "aim")
	row("---", "---:", "---:", "---:")
	row("write(2) of a line, 1,000 a second, median", micro(best(f.plain, median)), micro(best(f.own, median)), "")
	row("p99", micro(best(f.plain, p99)), micro(best(f.own, p99)), "unwrapped + 10 µs")
	row("median, while the service is down", "", micro(best(f.away, median)), "")
	row("p99, while the service is down", "", micro(best(f.away, p99)), "unwrapped + 10 µs")
	row("printed at full speed, on one core", mbs(f.plainFlood), mbs(f.flood), mbs(500))
	row("sent on one core, nothing dropped", "", sent(f.shipped), mbs(40))
	row("maximum sent on one core, while the rest is dropped", "", most(f.shipped), "")
	row(fmt.Sprintf("time in which a command prints %.0f MB at full speed, by default", float64(burst.total)/1e6), seconds(f.plainBurst.Took), seconds(f.burst.Took), "12 s")
	row("how much of it is read afterwards", mb(f.plainBurst.readable), mb(f.burst.readable), mb(f.burst.Bytes))
	row("from the write to a following reader, median", ms(framework.Percentile(f.plainSeen, 50)), ms(framework.Percentile(f.ownSeen, 50)), "600 ms")
	row("p99", ms(framework.Percentile(f.plainSeen, 99)), ms(framework.Percentile(f.ownSeen, 99)), "2000 ms")
	row("from the command's last write to the container's end, median", ms(framework.Percentile(f.plainEnds, 50)), ms(framework.Percentile(f.ownEnds, 50)), "unwrapped + 60 ms")
	row("p99", ms(framework.Percentile(f.plainEnds, 99)), ms(framework.Percentile(f.ownEnds, 99)), "")
	row("memory of the supervisor (RssAnon), without the ring", "", mb(f.supervisor.RSSAnon), "1.0 MB")
	row("memory of the sending process (RSS, including the ring's pages that it reads)", "", mb(f.shipper.RSS), "10 MB")
	row("CPU time of both processes for 100 lines in a second", "", ms(f.supervisor.CPU+f.shipper.CPU), "")
	cost, memory := serviceCost(f.shipped)
	row("CPU time of the service for 1 MB", "", ms(cost), "16.7 ms")
	row("memory of the service (RSS) meanwhile", "", mb(memory), "134 MB")
	fmt.Fprintf(&b, "\nTimes of writes come from the better of %d runs of %v, times of ends from %d containers, on %d cores that the cluster shares.\n\n", len(f.own), steady.lasts, len(f.ownEnds), runtime.NumCPU())

	row("streams of 1 KiB a second each", "requests that failed", "median", "p99", "CPU time in a second", "memory (RSS)")
	row(strings.Split("---"+strings.Repeat(" ---:", 5), " ")...)
	for _, s := range f.streams {
		row(fmt.Sprint(s.streams), fmt.Sprintf("%d of %d", s.failed, s.failed+len(s.times)), ms(framework.Percentile(s.times, 50)), ms(framework.Percentile(s.times, 99)), ms(s.usage.CPU), mb(s.usage.RSS))
	}
	return b.String()
}

func median(r report) time.Duration { return r.Median }

func p99(r report) time.Duration { return r.P99 }

// best is the smallest: what else the machine does only makes it larger.
func best(reports []report, of func(report) time.Duration) (least time.Duration) {
	for i, r := range reports {
		if d := of(r); i == 0 || d < least {
			least = d
		}
	}
	return least
}

// sent is the highest rate at which nothing was dropped.
func sent(all []shipped) string {
	var most float64
	for _, s := range all {
		if s.dropped == 0 {
			most = max(most, s.printed)
		}
	}
	return mbs(most)
}

// most is the highest rate at which bytes were stored.
func most(all []shipped) string {
	var most float64
	for _, s := range all {
		most = max(most, s.stored())
	}
	return mbs(most)
}

// stored is the rate at which bytes were, in MB/s.
func (s shipped) stored() float64 {
	if s.bytes == 0 {
		return 0
	}
	return s.printed * float64(s.bytes-s.dropped) / float64(s.bytes)
}

// serviceCost is what a MB takes of the service's CPU time, on average, and the most
// memory that it was seen to have.
func serviceCost(all []shipped) (each time.Duration, memory int64) {
	var cpu time.Duration
	var stored int64
	for _, s := range all {
		cpu += s.service.CPU
		stored += s.bytes - s.dropped
		memory = max(memory, s.service.RSS)
	}
	if stored == 0 {
		return 0, memory
	}
	return time.Duration(float64(cpu) / (float64(stored) / 1e6)), memory
}

func micro(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3) }

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func mbs(rate float64) string { return fmt.Sprintf("%.0f MB/s", rate) }
