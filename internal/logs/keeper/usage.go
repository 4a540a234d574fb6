// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"errors"
	"sync"
)

// What a namespace has no more room for.
var (
	ErrQuota   = errors.New("the namespace's logs have reached their quota: older ones have to be deleted, or quota be raised in the ConfigMap config-logs of the log service")
	ErrStreams = errors.New("the namespace has as many streams of logs as it may have: older ones have to be deleted, or streams be raised in the ConfigMap config-logs of the log service")
)

// An amount is what a namespace has.
type amount struct{ bytes, streams int64 }

func (a amount) plus(b amount) amount { return amount{a.bytes + b.bytes, a.streams + b.streams} }

// A usage is what the last look at all streams has found, and what this replica has
// taken since that look began. Some may be counted twice until the next; what n-1
// other replicas have taken since isn't.
type usage struct {
	mu     sync.Mutex
	found  map[string]amount // by namespace
	since  map[string]amount
	during map[string]amount // of since, what came while a look is under way
	// written are the streams to which something came since that look began: what is
	// known of them isn't so any more.
	written map[string]bool
}

func newUsage() *usage {
	return &usage{found: map[string]amount{}, since: map[string]amount{}, during: map[string]amount{}, written: map[string]bool{}}
}

func (u *usage) of(namespace string) amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.found[namespace].plus(u.since[namespace])
}

func (u *usage) took(namespace, id string, a amount) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since[namespace] = u.since[namespace].plus(a)
	u.during[namespace] = u.during[namespace].plus(a)
	if id != "" && len(u.written) <= maxRemembered {
		u.written[id] = true
	}
}

// look begins a look, and returns the streams to which something came since the last:
// all of them if there are more than are remembered.
func (u *usage) look() (written map[string]bool, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.during = map[string]amount{}
	written, u.written = u.written, map[string]bool{}
	return written, len(written) > maxRemembered
}

// looked ends it.
func (u *usage) looked(found map[string]amount) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.found, u.since, u.during = found, u.during, map[string]amount{}
}

// Room returns an error if a namespace can't store another byte.
func (k *Keeper) Room(namespace string) error { return k.room(namespace, 1) }

// RoomForMarker returns one if it can't even store that bytes were dropped. Pods mark
// what the quota has refused, so they may do that up to twice the quota.
func (k *Keeper) RoomForMarker(namespace string) error { return k.room(namespace, 2) }

func (k *Keeper) room(namespace string, times int64) error {
	if quota := k.limits.Load().Of(namespace).Quota; quota > 0 && k.usage.of(namespace).bytes/times >= quota {
		return ErrQuota
	}
	return nil
}

// RoomForStream returns an error if a namespace can't have another stream.
func (k *Keeper) RoomForStream(namespace string) error { return k.roomForStream(namespace, 1) }

// RoomForMarkedStream returns one if it can't even have one of whose bytes it is only
// known that they were dropped: there may be as many of these again.
func (k *Keeper) RoomForMarkedStream(namespace string) error { return k.roomForStream(namespace, 2) }

func (k *Keeper) roomForStream(namespace string, times int64) error {
	if most := k.limits.Load().Of(namespace).Streams; most > 0 && k.usage.of(namespace).streams/times >= most {
		return ErrStreams
	}
	return nil
}

// Took counts what a namespace has stored, to a stream that there was if id isn't "".
func (k *Keeper) Took(namespace, id string, bytes, streams int64) {
	k.usage.took(namespace, id, amount{bytes, streams})
}
