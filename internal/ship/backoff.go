// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// Between tries, pauses double from the shortest to the longest.
	shortestPause = 250 * time.Millisecond
	longestPause  = 10 * time.Second
	// lastPause is the longest pause when nothing more will come.
	lastPause = time.Second
	// longestAsked is the longest pause that the service can ask for.
	longestAsked = time.Minute
)

// An again is an answer that asks to come again.
type again struct {
	text  string
	after time.Duration // how long the service asks to wait, 0 if it doesn't say
}

func (a *again) Error() string { return a.text }

// retryAfter reads a Retry-After (RFC 9110, 10.2.3), 0 if it is none.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	after := longestAsked // also of a number that is too large to be read
	if strings.Trim(value, "0123456789") == "" {
		if seconds, err := strconv.Atoi(value); err == nil && seconds < int(longestAsked/time.Second) {
			after = time.Duration(seconds) * time.Second
		}
	} else {
		date, err := http.ParseTime(value)
		if err != nil {
			return 0
		}
		after = date.Sub(now)
	}
	return min(max(after, 0), longestAsked)
}

// backoff is how long to wait between tries.
type backoff struct{ last time.Duration }

func (b *backoff) reset() { b.last = 0 }

// after is the pause after an error: what the service has asked for, or twice the
// last one. Up to a quarter more is left to chance, so that not all come at once. What
// is refused, because there is too much of it, won't be taken soon.
func (b *backoff) after(err error) time.Duration {
	longest := longestPause
	if errors.Is(err, errRefused) {
		longest = longestAsked
	}
	b.last = min(max(2*b.last, shortestPause), longest)
	pause := b.last
	if asked, is := errors.AsType[*again](err); is && asked.after > 0 {
		pause = asked.after
	}
	return pause + rand.N(pause/4) //nolint:gosec // G404: nobody gains by guessing it
}
