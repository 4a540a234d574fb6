// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "sync"

// A room is for the bytes of requests that are being answered. Each pod has a
// share, so that none keeps the others out.
type room struct {
	total, share int64

	mu    sync.Mutex
	taken int64
	of    map[string]int64 // by the pod's UID
}

func newRoom(total, share int64) *room {
	return &room{total: total, share: share, of: map[string]int64{}}
}

// take says whether there is room, which is taken then.
func (r *room) take(pod string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+bytes > r.total || r.of[pod]+bytes > r.share {
		return false
	}
	r.taken += bytes
	r.of[pod] += bytes
	return true
}

// giveBack undoes take.
func (r *room) giveBack(pod string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= bytes
	if r.of[pod] -= bytes; r.of[pod] == 0 {
		delete(r.of, pod)
	}
}
