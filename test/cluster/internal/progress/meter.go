// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Meter shows how much of a long piece of work is done, and about how long
// the rest will take: by what its parts took last time, and by the pace of
// those that are done.
type Meter struct {
	record string // path
	stop   chan struct{}
	ended  chan struct{} // what shows the state

	mu     sync.Mutex
	began  time.Time
	parts  []*Part
	latest string // what the part that said something last is at
}

// A Part is a part of the work: units that take about the same time each. A nil
// Part takes what it is told, and shows nothing.
type Part struct {
	meter *Meter
	name  string
	unit  time.Duration // that one unit is expected to take
	units int           // in all
	done  int
	began time.Time // zero: not yet
}

// NewMeter returns a meter that knows from the record, a file, what parts took
// when they were last done. Close ends it.
func NewMeter(record string) *Meter {
	m := &Meter{record: record, stop: make(chan struct{}), ended: make(chan struct{}), began: time.Now()}
	go m.refresh()
	return m
}

// Part adds a part of so many units, each of which is expected to take so long
// if the record doesn't know better.
func (m *Meter) Part(name string, units int, unit time.Duration) *Part {
	if known, ok := m.read()[name]; ok {
		unit = time.Duration(known * float64(time.Second))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	part := &Part{meter: m, name: name, unit: unit, units: units}
	m.parts = append(m.parts, part)
	return part
}

// Begin says that the part begins, and how many units it turned out to have.
func (p *Part) Begin(units int) {
	if p == nil {
		return
	}
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	p.units, p.done, p.began = units, 0, time.Now()
}

// Advance says what the part is at now: one unit more is done than before.
func (p *Part) Advance(what string) {
	if p == nil {
		return
	}
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	p.done = min(p.done+1, p.units)
	p.meter.latest = what
}

// SetStatus says what the part is at, without any more of it being done.
func (p *Part) SetStatus(what string) {
	if p == nil {
		return
	}
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	p.meter.latest = what
}

// Done says that nothing of the part is left to do.
func (p *Part) Done() {
	if p == nil {
		return
	}
	p.meter.mu.Lock()
	defer p.meter.mu.Unlock()
	if p.began.IsZero() {
		p.units = 0 // It was done before: it is none of this run's work.
		return
	}
	p.done = p.units
	if took := time.Since(p.began); p.units > 0 && took > short {
		p.meter.write(p.name, took/time.Duration(p.units))
	}
}

// Close ends what is shown.
func (m *Meter) Close() {
	close(m.stop)
	<-m.ended
	terminal.show("")
}

// state is the share of the work that is done, from 0 to 1, and about how long
// the rest will take.
func (m *Meter) state(now time.Time) (done float64, left time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all, ready time.Duration
	for _, p := range m.parts {
		all += time.Duration(p.units) * p.unit
		ready += time.Duration(p.done) * p.unit
	}
	if all == 0 {
		return 1, 0
	}
	// Parts overlap, and machines differ. What was expected counts for a minute
	// of experience.
	pace := float64(now.Sub(m.began)+time.Minute) / float64(ready+time.Minute)
	return float64(ready) / float64(all), time.Duration(pace * float64(all-ready))
}

func (m *Meter) text(now time.Time) string {
	done, left := m.state(now)
	text := fmt.Sprintf("%2.0f %%, %s", 100*done, about(left))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest != "" {
		text += ": " + m.latest
	}
	return text
}

// about is a duration as a person would tell it.
func about(left time.Duration) string {
	switch minutes := int(left.Round(time.Minute) / time.Minute); {
	case left < 45*time.Second:
		return "less than a minute left"
	case minutes == 1:
		return "about 1 minute left"
	default:
		return fmt.Sprintf("about %d minutes left", minutes)
	}
}

// refresh shows the state while there is something left to wait for: on a
// terminal in one line that moves, elsewhere now and then in a line of its own.
func (m *Meter) refresh() {
	defer close(m.ended)
	interval := reminder
	if terminal.moves() {
		interval = time.Second / 4
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case now := <-tick.C:
			if _, left := m.state(now); left < short || now.Sub(m.began) < short {
				continue
			}
			if terminal.moves() {
				terminal.show(m.text(now))
			} else {
				Printf("%s", m.text(now))
			}
		}
	}
}

// read returns the seconds that a unit of each part took, as far as known.
func (m *Meter) read() map[string]float64 {
	known := map[string]float64{}
	if text, err := os.ReadFile(m.record); err == nil && json.Unmarshal(text, &known) != nil {
		return nil // Nothing depends on it: what can't be read is not known.
	}
	return known
}

// write remembers what a unit took. If it can't, the next run knows less.
func (m *Meter) write(part string, unit time.Duration) {
	known := m.read()
	if known == nil {
		known = map[string]float64{}
	}
	known[part] = unit.Seconds()
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil || os.MkdirAll(filepath.Dir(m.record), 0o755) != nil {
		return
	}
	if os.WriteFile(m.record+".new", text, 0o644) == nil {
		_ = os.Rename(m.record+".new", m.record)
	}
}
