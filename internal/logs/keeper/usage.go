// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"errors"
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

// A usage is what the last sweep has found, and what this replica has stored since that
// sweep began. Until the next sweep, some objects may be counted twice, and what other
// replicas have stored meanwhile isn't counted.
type usage struct {
	mu          sync.Mutex
	found       map[string]amount // by namespace
	sinceSweep  map[string]amount
	duringSweep map[string]amount // the part of sinceSweep that was stored while a sweep runs
	// written has, by ID, what was written since the last sweep began, which the records of
	// the streams lack.
	written map[string]growth
}

// A growth is what was written to a stream. Each write is an object.
type growth struct {
	bytes   int64
	objects int
}

func newUsage() *usage {
	return &usage{found: map[string]amount{}, sinceSweep: map[string]amount{}, duringSweep: map[string]amount{}, written: map[string]growth{}}
}

func (u *usage) of(namespace string) amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.found[namespace].plus(u.sinceSweep[namespace])
}

func (u *usage) add(namespace, id string, a amount) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sinceSweep[namespace] = u.sinceSweep[namespace].plus(a)
	u.duringSweep[namespace] = u.duringSweep[namespace].plus(a)
	if id != "" && len(u.written) <= maxRemembered {
		has := u.written[id]
		u.written[id] = growth{has.bytes + a.bytes, has.objects + 1}
	}
}

// beginSweep returns what was written since the last sweep began. all says that there are
// too many streams to remember, so any may have been written.
func (u *usage) beginSweep() (written map[string]growth, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.duringSweep = map[string]amount{}
	written, u.written = u.written, map[string]growth{}
	return written, len(written) > maxRemembered
}

// endSweep ends the sweep that beginSweep has begun.
func (u *usage) endSweep(found map[string]amount) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.found, u.sinceSweep, u.duringSweep = found, u.duringSweep, map[string]amount{}
}

// CheckBytes returns an error if a namespace can't store another byte.
func (k *Keeper) CheckBytes(namespace string) error { return k.checkQuota(namespace, 1) }

// CheckMarker returns an error if a namespace can't store another marker. Pods mark the
// bytes that the quota has refused, so markers may use up to twice the quota.
func (k *Keeper) CheckMarker(namespace string) error { return k.checkQuota(namespace, 2) }

func (k *Keeper) checkQuota(namespace string, times int64) error {
	if quota := k.limits.Load().Of(namespace).Quota; quota > 0 && k.usage.of(namespace).bytes/times >= quota {
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

// RecordUsage counts bytes and streams that a namespace has stored. The id is "" for new
// streams.
func (k *Keeper) RecordUsage(namespace, id string, bytes, streams int64) {
	k.usage.add(namespace, id, amount{bytes, streams})
}
