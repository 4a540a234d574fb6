// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package room bounds the memory that requests take, before they take it.
package room

import "sync"

// A Room is for the bytes of requests that are being answered. Each client has a
// share, so that none keeps the others out.
type Room struct {
	total, share int64

	mu    sync.Mutex
	taken int64
	of    map[string]int64
}

// New returns a room of so many bytes, of which a client has a share at most.
func New(total, share int64) *Room {
	return &Room{total: total, share: share, of: map[string]int64{}}
}

// Take says whether there is room, which is taken then.
func (r *Room) Take(client string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+bytes > r.total || r.of[client]+bytes > r.share {
		return false
	}
	r.taken += bytes
	r.of[client] += bytes
	return true
}

// GiveBack undoes Take.
func (r *Room) GiveBack(client string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= bytes
	if r.of[client] -= bytes; r.of[client] == 0 {
		delete(r.of, client)
	}
}

// Taken is how much isn't given back, in bytes.
func (r *Room) Taken() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}
