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

// costs are what was measured, per peer; times are sorted.
type costs struct {
	turns                  int
	idle                   time.Duration
	starts, exits, signals map[*peer][]time.Duration
	waits                  map[*peer]framework.Usage
}

// render makes the table. Peers that are replaced by the command have no
// process that could wait.
func render(peers []*peer, absent []absence, c costs) string {
	header := []string{
		"", "binary", "start-up", "added", "added, p99", "tini = 1", "RssAnon", "RSS", "threads",
		"exit noticed after", "signal noticed after", fmt.Sprintf("wake-ups in %.0f s", c.idle.Seconds()), "CPU time meanwhile",
	}
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row(header...)
	row(strings.Split("---"+strings.Repeat(" ---:", len(header)-1), " ")...)
	bare, tini := named(peers, bareName), named(peers, tiniName)
	for _, p := range peers {
		median := c.above(bare, p, 50)
		cells := []string{p.name, "", ms(framework.Percentile(c.starts[p], 50)), "", ms(c.above(bare, p, 99)), ""}
		if p != bare {
			cells[1], cells[3] = mb(p.size), ms(median)
			if tini != nil {
				cells[5] = fmt.Sprintf("%.2f", float64(median)/float64(c.above(bare, tini, 50)))
			}
		}
		w := c.waits[p]
		last := make([]string, 7)
		if !p.startOnly {
			last[3], last[4] = ms(framework.Percentile(c.exits[p], 50)), ms(framework.Percentile(c.signals[p], 50))
		}
		if !p.replaced && !p.startOnly {
			last[0], last[1], last[2], last[5], last[6] = mb(w.RSSAnon), mb(w.RSS), fmt.Sprint(w.Threads), fmt.Sprint(w.Wakeups), ms(w.CPU)
		}
		row(append(cells, last...)...)
	}
	for _, a := range absent {
		row(a.name, "not measured: "+strings.ReplaceAll(a.why, "|", `\|`)+strings.Repeat(" |", len(header)-2))
	}
	fmt.Fprintf(&b, "\nMedians of %d runs on %d cores, except the column p99.\n", c.turns, runtime.NumCPU())
	return b.String()
}

// above is by how much a percentile of p's start-up exceeds the median of
// bare's. Bare's own is what else the machine did.
func (c costs) above(bare, p *peer, percent int) time.Duration {
	return framework.Percentile(c.starts[p], percent) - framework.Percentile(c.starts[bare], 50)
}

// named is the peer whose name, without a version, this is; nil if it is absent.
func named(peers []*peer, name string) *peer {
	for _, p := range peers {
		if word, _, _ := strings.Cut(p.name, " "); word == name {
			return p
		}
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func mb(bytes int64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/1e6) }
