// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

// A pace lets the lines of a slow command gather in the pipe, so that the supervisor
// doesn't wake for each. Output that is fast, or becomes fast, is read without a pause.
type pace struct {
	lastOutput time.Time // the time of the last read with bytes
	slowReads  int       // the number of slow reads since the last fast one
	restUntil  time.Time // the end of the current pause
}

const (
	// gatherPause is how long lines gather.
	gatherPause = 5 * time.Millisecond
	// slowRate is the rate up to which a command is slow, in bytes per microsecond. At ten
	// times this rate, a pipe fills up during gatherPause.
	slowRate = 1
)

// pauseLeft returns the rest of the current pause.
func (p *pace) pauseLeft(now time.Time) time.Duration { return p.restUntil.Sub(now) }

func (p *pace) isResting(now time.Time) bool { return p.pauseLeft(now) > 0 }

// noteRead notes a read of some bytes, and returns the pause before the next read.
func (p *pace) noteRead(now time.Time, count int64) time.Duration {
	if count == 0 {
		return output.Forever
	}
	since := now.Sub(p.lastOutput).Microseconds()
	p.lastOutput = now
	if count > since*slowRate {
		p.slowReads = 0
		return output.Forever
	}
	// Lines that are this rare don't gather.
	if since > (gatherPause + gatherPause/2).Microseconds() {
		return output.Forever
	}
	// The first read of a burst is slow as well.
	if p.slowReads++; p.slowReads < 2 {
		return output.Forever
	}
	p.restUntil = now.Add(gatherPause)
	return gatherPause
}
