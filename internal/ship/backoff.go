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

	"github.com/entrypointer/entrypointer/internal/logs/retries"
)

const (
	// The pause between attempts doubles from shortestPause to longestPause.
	shortestPause = 250 * time.Millisecond
	longestPause  = retries.LongestPause
	// finalPause replaces longestPause once a stream has ended: the container waits for the
	// rest.
	finalPause = time.Second
	// longestRefused is the longest pause after the service has refused to create a stream.
	longestRefused = time.Minute
)

// A retryError is a response after which the request is to be sent again.
type retryError struct {
	text string
	wait time.Duration // the Retry-After of the response, 0 if there is none
}

func (a *retryError) Error() string { return a.text }

// parseRetryAfter parses a Retry-After header (RFC 9110, 10.2.3). It returns 0 for an
// invalid one.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	after := retries.LongestRetryAfter // also for numbers that overflow an int
	if strings.Trim(value, "0123456789") == "" {
		if seconds, err := strconv.Atoi(value); err == nil && seconds < int(retries.LongestRetryAfter/time.Second) {
			after = time.Duration(seconds) * time.Second
		}
	} else {
		date, err := http.ParseTime(value)
		if err != nil {
			return 0
		}
		after = date.Sub(now)
	}
	return min(max(after, 0), retries.LongestRetryAfter)
}

// A backoff computes the pauses between attempts.
type backoff struct{ last time.Duration }

func (b *backoff) reset() { b.last = 0 }

// pauseAfter returns the pause after an error: the one that the service has asked for, or
// twice the last one. Up to a quarter is added at random, so that pods don't retry in
// step. Refused data, such as data beyond a quota, has longer pauses: it will hardly be
// accepted soon.
func (b *backoff) pauseAfter(err error) time.Duration {
	longest := longestPause
	if errors.Is(err, errRefused) {
		longest = longestRefused
	}
	b.last = min(max(2*b.last, shortestPause), longest)
	pause := b.last
	if asked, is := errors.AsType[*retryError](err); is && asked.wait > 0 {
		pause = asked.wait
	}
	return pause + rand.N(pause/retries.JitterShare) //nolint:gosec // G404: jitter isn't a secret
}
