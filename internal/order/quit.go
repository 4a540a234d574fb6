// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Quitter asks a server to end, by a POST, until it hears that it does. As a Prober, it
// waits for nothing itself.
type Quitter struct {
	URL      string
	prober   *Prober
	sent     bool // the server has got the request
	finished bool
	err      error
}

const (
	// quitPeriod is the time from one try to the next.
	quitPeriod = 500 * time.Millisecond
	// quitTimeout is the longest time that one may take.
	quitTimeout = 2 * time.Second
)

// NewQuitter returns one that asks at an HTTP target. It is to be closed.
func NewQuitter(t Target) *Quitter {
	t.probe.Period, t.probe.Timeout = quitPeriod, quitTimeout
	q := &Quitter{URL: t.URL, prober: NewProber(&t.probe, nil)}
	q.prober.method = methodPost
	return q
}

// Act does what is due, and returns whether there is nothing more to do, or else when to
// be called again at the latest.
func (q *Quitter) Act() (over bool, next time.Time) {
	if q.finished {
		return true, time.Time{}
	}
	done, next := q.prober.Act()
	_, q.err = q.prober.Failure()
	switch {
	case done:
		q.finished = true
	case q.err == unix.ECONNREFUSED && q.sent && !q.prober.sent:
		q.finished, q.err = true, nil // it has ended instead of answering
	case isFinal(q.err):
		q.finished = true
	}
	q.sent = q.sent || q.prober.sent
	return q.finished, next
}

// isFinal reports whether an answer will be the same the next time: the server is there,
// and knows of no such request.
func isFinal(err error) bool {
	a, is := err.(*badAnswer) //nolint:errorlint // it comes from here
	return is && a.code >= 300 && a.code < 500
}

// Err is why the last try has failed, nil if it hasn't.
func (q *Quitter) Err() error { return q.err }

// Poll adds the descriptors that may bring news.
func (q *Quitter) Poll(fds []unix.PollFd) []unix.PollFd { return q.prober.Poll(fds) }

// Close ends what is under way.
func (q *Quitter) Close() { q.prober.Close() }
