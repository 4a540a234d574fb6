// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"
)

// The limits that a namespace can reach.
var (
	ErrQuota   = errors.New("the namespace's logs have reached their quota: older ones are deleted within minutes; for longer logs, have the operator raise quota in the ConfigMap config-logs of the log service")
	ErrStreams = errors.New("the namespace has reached its limit of streams of logs: wait until older logs are deleted, or have the operator raise streams in the ConfigMap config-logs of the log service")
)

// An amount is how much a namespace has stored.
type amount struct{ bytes, streams int64 }

func (a amount) plus(b amount) amount { return amount{a.bytes + b.bytes, a.streams + b.streams} }

// MarshalJSON implements json.Marshaler.
func (a amount) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{a.bytes, a.streams}) }

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(text []byte) error {
	var both [2]int64
	err := json.Unmarshal(text, &both)
	a.bytes, a.streams = both[0], both[1]
	return err
}

// amounts are by namespace.
type amounts map[string]amount

func (a amounts) add(namespace string, b amount) { a[namespace] = a[namespace].plus(b) }

// A growth is what was written to a stream. Each write is an object. It is negative if its
// namespace needed room.
type growth struct {
	Namespace string `json:"n"`
	Bytes     int64  `json:"b,omitempty"` // all of them
	Index     int64  `json:"i,omitempty"` // those of its entries in the index
	Objects   int64  `json:"o,omitempty"`
	Streams   int64  `json:"s,omitempty"` // 1 if it is new
}

func (g growth) plus(h growth) growth {
	return growth{h.Namespace, g.Bytes + h.Bytes, g.Index + h.Index, g.Objects + h.Objects, g.Streams + h.Streams}
}

// A total is how much the namespaces have in a partition, as a sweep has found it.
type total struct {
	At         time.Time        `json:"at"`   // by the storage's clock
	Read       map[string]int64 `json:"read"` // the last page of each replica that it contains
	Namespaces amounts          `json:"namespaces"`
}

// A pageGrowth is what a page adds to the totals that don't contain it yet.
type pageGrowth struct {
	pageName
	at          time.Time
	byPartition [partitions]amounts
}

// maxWritten bounds the streams of a page, of some 150 bytes each.
const maxWritten = 100_000

// A usage is the sum of what sweeps have found in each partition, of what pages of all
// replicas add to that, and of what this replica has stored since its last page.
type usage struct {
	mu     sync.Mutex
	totals [partitions]total
	pages  map[pageName]*pageGrowth
	stored amounts // the sum of both

	unwritten map[streamID]growth // what comes into the next page
	all       bool                // whether there is more than that
	since     amounts             // the sum of unwritten
	// loose is what belongs to no known stream. It counts until a sweep that has begun after
	// it has ended.
	loose, looseDuring amounts
	refused            map[string]bool // the namespaces of which this replica has refused bytes
}

func newUsage() *usage {
	return &usage{pages: map[pageName]*pageGrowth{}, stored: amounts{}, unwritten: map[streamID]growth{}, since: amounts{}, loose: amounts{}, looseDuring: amounts{}, refused: map[string]bool{}}
}

func (u *usage) of(namespace string) amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored[namespace].plus(u.since[namespace]).plus(u.loose[namespace])
}

func (u *usage) add(id string, g growth) {
	u.mu.Lock()
	defer u.mu.Unlock()
	namespace, a := g.Namespace, amount{g.Bytes, g.Streams}
	stream, is := parseID(id)
	if !is {
		u.loose.add(namespace, a)
		u.looseDuring.add(namespace, a)
		return
	}
	u.since.add(namespace, a)
	has, known := u.unwritten[stream]
	if !known && len(u.unwritten) >= maxWritten {
		u.all = true
		return
	}
	u.unwritten[stream] = has.plus(g)
}

// take returns what was written since the last page, and counts it as that of a page. all
// says that there are too many streams to name, so any may have been written.
func (u *usage) take(name pageName, at time.Time) (written map[streamID]growth, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	written, all = u.unwritten, u.all
	u.unwritten, u.all, u.since = map[streamID]growth{}, false, amounts{}
	u.notePage(name, at, written)
	return written, all
}

// giveBack undoes take.
func (u *usage) giveBack(name pageName, written map[streamID]growth, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pages, name)
	u.all = u.all || all
	for id, g := range written {
		if has, known := u.unwritten[id]; known {
			g = g.plus(has)
		}
		u.unwritten[id] = g
		u.since.add(g.Namespace, amount{g.Bytes, g.Streams})
	}
	u.sum()
}

// note adds the page of another replica: the totals of its partitions, and what it has written.
func (u *usage) note(name pageName, at time.Time, totals map[int]total, written map[streamID]growth) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for partition, t := range totals {
		if partition >= 0 && partition < partitions && t.At.After(u.totals[partition].At) {
			u.totals[partition] = t
		}
	}
	if u.pages[name] == nil {
		u.notePage(name, at, written)
	}
}

func (u *usage) notePage(name pageName, at time.Time, written map[streamID]growth) {
	of := &pageGrowth{pageName: name, at: at}
	for id, g := range written {
		in := &of.byPartition[id.partition()]
		if *in == nil {
			*in = amounts{}
		}
		in.add(g.Namespace, amount{g.Bytes, g.Streams})
	}
	u.pages[name] = of
	u.sum()
}

// setTotal sets what a sweep has found in a partition.
func (u *usage) setTotal(partition int, t total) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.totals[partition] = t
	u.sum()
}

// total returns what is known of a partition.
func (u *usage) total(partition int) total {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.totals[partition]
}

// sum adds up what is stored. Pages that all totals contain are forgotten.
func (u *usage) sum() {
	u.stored = amounts{}
	for _, t := range u.totals {
		for namespace, a := range t.Namespaces {
			u.stored.add(namespace, a)
		}
	}
	for name, p := range u.pages {
		for i, in := range p.byPartition {
			if in == nil {
				continue
			}
			if u.totals[i].Read[name.replica] >= name.number {
				p.byPartition[i] = nil
				continue
			}
			for namespace, a := range in {
				u.stored.add(namespace, a)
			}
		}
	}
}

// forgetPages forgets pages from before a time, and those that aren't in the journal.
func (u *usage) forgetPages(before time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.pages, func(_ pageName, p *pageGrowth) bool { return p.at.Before(before) })
	u.sum()
}

// isNewer reports whether all totals are newer than a time, so that pages from then aren't
// needed any more.
func (u *usage) isNewer(than time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.totals {
		if !t.At.After(than) {
			return false
		}
	}
	return true
}

// knows reports whether a page was noted.
func (u *usage) knows(name pageName) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pages[name] != nil
}

// beginSweep begins a sweep, which finds what is loose now.
func (u *usage) beginSweep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.looseDuring = amounts{}
}

// endSweep ends the sweep that beginSweep has begun.
func (u *usage) endSweep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.loose, u.looseDuring = u.looseDuring, amounts{}
}

// full returns the namespaces that have reached a limit in bytes, with what they have stored,
// if this replica has refused bytes of them, or if they are chosen.
func (u *usage) full(quota func(namespace string) int64, chosen func(namespace string) bool) amounts {
	u.mu.Lock()
	defer u.mu.Unlock()
	full := amounts{}
	for namespace, a := range u.stored {
		if most := quota(namespace); most > 0 && a.bytes >= most && (u.refused[namespace] || chosen(namespace)) {
			full[namespace] = a
		}
	}
	clear(u.refused)
	return full
}

// refuse notes that bytes of a namespace were refused.
func (u *usage) refuse(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.refused) < maxWritten {
		u.refused[namespace] = true
	}
}

// CheckBytes returns an error if a namespace can't store another byte.
func (k *Keeper) CheckBytes(namespace string) error { return k.checkQuota(namespace, 1) }

// CheckMarker returns an error if a namespace can't store another marker. Pods mark the
// bytes that the quota has refused, so markers may use up to twice the quota.
func (k *Keeper) CheckMarker(namespace string) error { return k.checkQuota(namespace, 2) }

func (k *Keeper) checkQuota(namespace string, times int64) error {
	if quota := k.limits.Load().Of(namespace).Quota; quota > 0 && k.usage.of(namespace).bytes/times >= quota {
		k.usage.refuse(namespace)
		if !(*k.hopeless.Load())[namespace] {
			select {
			case k.full <- struct{}{}: // Run begins a sweep soon
			default:
			}
		}
		return ErrQuota
	}
	return nil
}

// CheckStream returns an error if a namespace can't have another stream.
func (k *Keeper) CheckStream(namespace string) error { return k.checkStreams(namespace, 1) }

// CheckSurplusStream returns an error if a namespace can't have another surplus stream,
// which takes markers but no bytes. A namespace can have as many of them as of other
// streams.
func (k *Keeper) CheckSurplusStream(namespace string) error { return k.checkStreams(namespace, 2) }

func (k *Keeper) checkStreams(namespace string, times int64) error {
	if most := k.limits.Load().Of(namespace).Streams; most > 0 && k.usage.of(namespace).streams/times >= most {
		return ErrStreams
	}
	return nil
}

// Linger returns how long the containers of a namespace may wait between two parts of a
// stream that nobody follows.
func (k *Keeper) Linger(namespace string) time.Duration {
	if linger := k.limits.Load().Of(namespace).Linger; linger != LingerByStorage {
		return linger
	}
	return k.OwnLinger
}

// RecordUsage counts bytes and streams that a namespace has stored. The id is "" if it isn't
// known.
func (k *Keeper) RecordUsage(namespace, id string, bytes, streams int64) {
	g := growth{Namespace: namespace, Bytes: bytes, Streams: streams}
	if bytes > 0 && streams == 0 {
		g.Objects = 1
	}
	k.usage.add(id, g)
}

// RecordStream counts a new stream: the bytes of its meta, and those of its entries in the
// index.
func (k *Keeper) RecordStream(namespace, id string, meta, index int64) {
	k.usage.add(id, growth{Namespace: namespace, Bytes: meta + index, Index: index, Streams: 1})
}
