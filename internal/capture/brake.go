// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// A brake has the command wait while the ring is full, as for any slow reader of a pipe,
// but for no longer than a bound without an acknowledgement of the log service. So a
// service that is down stops the command once, and not again until it takes bytes.
type brake struct {
	bound        time.Duration // 0: the command never waits
	acknowledged int64         // how many bytes of all streams the ring didn't have to keep at the last look
	since        time.Time     // since when the command waits for an acknowledgement, zero if it doesn't
	released     bool          // the bound is over
}

// look notes what the log service has acknowledged.
func (b *brake) look(w *ring.Writer) {
	var acknowledged int64
	for _, s := range ring.Streams {
		acknowledged += w.Spent(s)
	}
	if acknowledged != b.acknowledged {
		b.acknowledged, b.since, b.released = acknowledged, time.Time{}, false
	}
}

// left returns for how long the command may wait from now on, 0 if it may not.
func (b *brake) left(now time.Time) time.Duration {
	if b.since.IsZero() {
		b.since = now
	}
	left := b.bound - now.Sub(b.since)
	if b.released = b.released || left <= 0; b.released {
		return 0
	}
	return left
}
