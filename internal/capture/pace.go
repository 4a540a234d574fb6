// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/supervisor"
)

// A pace keeps the supervisor from waking for each line of a command that prints
// little: it lets some lines gather in the pipe, where there is room for them. One
// that prints much, or begins to, doesn't wait for that.
type pace struct {
	last  time.Time // when something came
	slow  int       // how often, up to now, little had come by then
	until time.Time // when to look again
}

const (
	// rest is how long lines gather.
	rest = 5 * time.Millisecond
	// little is how many bytes a microsecond make a command that prints little: at
	// ten times that, a pipe is full after the rest.
	little = 1
)

// left is for how long not to look.
func (p *pace) left(now time.Time) time.Duration { return p.until.Sub(now) }

func (p *pace) rests(now time.Time) bool { return p.left(now) > 0 }

// after takes note of how many bytes have come, and returns when to look again.
func (p *pace) after(now time.Time, came int64) time.Duration {
	if came == 0 {
		return supervisor.Forever
	}
	since := now.Sub(p.last).Microseconds()
	p.last = now
	if came > since*little {
		p.slow = 0
		return supervisor.Forever
	}
	// What comes this rarely doesn't gather.
	if since > (rest + rest/2).Microseconds() {
		return supervisor.Forever
	}
	// The first of many bytes come after a pause as well.
	if p.slow++; p.slow < 2 {
		return supervisor.Forever
	}
	p.until = now.Add(rest)
	return rest
}
