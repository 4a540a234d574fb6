// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"
)

// A limit is the time after which a process takes too long, zero for never.
type limit struct{ at time.Time }

// newLimit returns a limit that is reached after this time, 0 for never.
func newLimit(after time.Duration) (l limit) {
	if after > 0 {
		l.at = time.Now().Add(after)
	}
	return l
}

// reached reports whether the limit is reached, and returns the time until then.
func (l limit) reached() (is bool, pause time.Duration) {
	if l.at.IsZero() {
		return false, forever
	}
	if left := time.Until(l.at); left > 0 {
		return false, left
	}
	return true, forever
}

// endAfter ends the command when it takes too long, and returns the time until then.
func (s *supervision) endAfter(l limit) time.Duration {
	is, pause := l.reached()
	if is && s.endCommand(tooSlow, syscall.SIGTERM, s.opts.gracePeriod, releaseTooSlow) {
		s.event(EventTimeout, "", 0)
	}
	return pause
}
