// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
)

const (
	day   = 24 * time.Hour
	month = 30 * day
	// goalOfBulk and goalOfChatty are the goals, in dollars.
	goalOfBulk, goalOfChatty = 0.03, 0.50
)

// A price is what a GB, or a month of a stream, costs.
type price struct {
	calls          tally
	gigabytes      float64 // of text
	stored         float64 // GB that are kept for a month
	dollarsOfCalls float64
	dollarsOfBytes float64
}

func (p price) dollars() float64 { return p.dollarsOfCalls + p.dollarsOfBytes }

// ofGB is the price of a GB that is printed at full speed and kept for a month.
func (l life) ofGB() price {
	return l.scaled(1e9 / float64(l.sent))
}

// ofStreamMonth is the price of a stream with a line a second for a month, whose lines are
// kept for a month. The log service gets a part in each LongestLinger, so a machine that is
// too slow for that doesn't make it look cheaper.
func (l life) ofStreamMonth() price {
	p := l.scaled(month.Seconds() / float64(l.lines))
	if l.parts > 0 {
		p.calls = l.kept.times(float64(month/retries.LongestLinger) / float64(l.parts))
		p.dollarsOfCalls = p.calls.dollars()
	}
	return p
}

func (l life) scaled(factor float64) price {
	p := price{calls: l.kept.times(factor), gigabytes: float64(l.sent) * factor / 1e9, stored: float64(l.stored) * factor / 1e9}
	p.dollarsOfCalls, p.dollarsOfBytes = p.calls.dollars(), p.stored*priceOfStorage
	return p
}

// prices makes a table of what systems cost, beside services at their list prices.
type prices struct{ strings.Builder }

func newPrices() *prices {
	t := &prices{}
	t.row("", "PUT", "LIST", "GET", "DELETE", "dollars of calls", "GB stored", "with a month of storage", "goal for calls")
	t.row(strings.Split("---"+strings.Repeat(" ---:", 8), " ")...)
	return t
}

func (t *prices) row(cells ...string) { fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | ")) }

// priced adds a row of a system that was measured, with a goal unless it is 0.
func (t *prices) priced(what string, p price, goal float64) {
	verdict := ""
	if goal > 0 {
		verdict = fmt.Sprintf("%.2f: %s", goal, met(p.dollarsOfCalls <= goal))
	}
	t.row(what, count(p.calls.puts), count(p.calls.lists), count(p.calls.gets), count(p.calls.deletes),
		fmt.Sprintf("%.4f", p.dollarsOfCalls), fmt.Sprintf("%.3f", p.stored), fmt.Sprintf("%.4f", p.dollars()), verdict)
}

// listed adds the services that are priced by what they take in.
func (t *prices) listed(p price) {
	cloudLogging := p.gigabytes * 1e9 / gib * priceOfCloudLogging
	cloudWatch := p.gigabytes*priceOfCloudWatch + p.stored*priceOfCloudWatchStorage
	t.row("Cloud Logging, by its list price", "", "", "", "", "", "", fmt.Sprintf("%.4f", cloudLogging), "")
	t.row("CloudWatch Logs, by its list price", "", "", "", "", "", "", fmt.Sprintf("%.4f", cloudWatch), "")
}

// renderBulk makes the table of what a GB costs.
func renderBulk(p plan, found []life) string {
	t := newPrices()
	var took []string
	for i, s := range p.systems() {
		goal := 0.
		if i == 0 {
			goal = goalOfBulk
		}
		t.priced(s.name, found[i].ofGB(), goal)
		took = append(took, fmt.Sprint(found[i].duration.Round(time.Second)))
	}
	t.listed(found[0].ofGB())
	fmt.Fprintf(t, "\n%.2f GB of %d streams, at full speed in %s; then everything was joined or flushed, and read again. %s.\n",
		float64(found[0].sent)/1e9, p.bulk.streams, strings.Join(took, " and "), measuredOn())
	return t.String()
}

// renderChatty makes the table of what a stream with a line a second costs.
func renderChatty(p plan, found []life) string {
	t := newPrices()
	for i, s := range p.systems() {
		goal := 0.
		if i == 0 {
			goal = goalOfChatty
		}
		t.priced(s.name, found[i].ofStreamMonth(), goal)
	}
	t.listed(found[0].ofStreamMonth())
	each := 1 / float64(p.lapse.streams)
	fmt.Fprintf(t, "\nCreating a stream in the log service takes %s, and deleting it after its retention %s; both come once, and aren't in the table. ",
		calls(found[0].created.times(each)), calls(found[0].expired.times(each)))
	fmt.Fprintf(t, "%d streams, by a clock that was %d times as fast, over %v of that clock; then everything was joined or flushed, and read again. %s.\n",
		p.lapse.streams, p.lapse.speed, (p.lapse.lasts * time.Duration(p.lapse.speed)).Round(time.Minute), measuredOn())
	return t.String()
}

// measuredOn is when and where this was measured.
func measuredOn() string {
	return fmt.Sprintf("On %s, on %s", time.Now().UTC().Format(time.DateOnly), machine())
}

func met(is bool) string {
	if is {
		return "met"
	}
	return "**missed**"
}

func count(n float64) string { return fmt.Sprintf("%.0f", n) }

// calls says how many requests there are, and what they cost.
func calls(c tally) string {
	return fmt.Sprintf("%.1f PUT, %.1f LIST, %.1f GET and %.1f DELETE ($%.6f)", c.puts, c.lists, c.gets, c.deletes, c.dollars())
}

// renderLoads makes the table of what numbers of streams take.
func renderLoads(p plan, loads []load) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row("streams", "", "requests a second", "repeated", "median", "p99", "calls a second", "CPU of a process", "highest memory of a process (RSS)")
	row(strings.Split("---: ---"+strings.Repeat(" ---:", 7), " ")...)
	for _, l := range loads {
		seconds := p.rateLast.Seconds()
		row(fmt.Sprintf("%d, a line in %v", l.streams, l.every), l.system, fmt.Sprintf("%.0f", float64(l.requests)/seconds), fmt.Sprint(l.failed), millis(l.p50), millis(l.p99),
			fmt.Sprintf("%.0f", l.calls.total()/seconds), fmt.Sprintf("%.2f cores", l.cpu), fmt.Sprintf("%.0f MB", float64(l.memory)/1e6))
	}
	fmt.Fprintf(&b, "\nMeasured for %v, once each stream had sent a part. %s.\n", p.rateLast, measuredOn())
	return b.String()
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
