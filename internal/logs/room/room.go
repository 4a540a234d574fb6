// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package room bounds the memory of requests before they allocate it.
package room

import "sync"

// A Room counts the bytes that requests hold. Each client has a share of it, so that one
// client can't block the others.
type Room struct {
	total, share int64

	mu      sync.Mutex
	taken   int64
	takenBy map[string]int64
}

// New returns a room of some bytes, of which one client can take a share.
func New(total, share int64) *Room {
	return &Room{total: total, share: share, takenBy: map[string]int64{}}
}

// Take takes bytes for a client, and reports whether there was room.
func (r *Room) Take(client string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+bytes > r.total || r.takenBy[client]+bytes > r.share {
		return false
	}
	r.taken += bytes
	r.takenBy[client] += bytes
	return true
}

// GiveBack undoes Take.
func (r *Room) GiveBack(client string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= bytes
	if r.takenBy[client] -= bytes; r.takenBy[client] == 0 {
		delete(r.takenBy, client)
	}
}

// Taken returns the bytes that are taken and not given back.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
