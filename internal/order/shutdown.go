// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A ShutdownRequest asks a server to shut down by an HTTP POST, and repeats the request
// until the server confirms. Like a Prober, it never blocks.
type ShutdownRequest struct {
	URL      string
	prober   *Prober
	sent     bool // the server has received a whole request
	finished bool
	err      error
}

const (
	// shutdownPeriod is the time between two requests.
	shutdownPeriod = 500 * time.Millisecond
	// shutdownTimeout is the longest time for one request.
	shutdownTimeout = 2 * time.Second
)

// NewShutdownRequest returns a ShutdownRequest for an HTTP target. The caller closes it.
func NewShutdownRequest(t Target) *ShutdownRequest {
	t.probe.Period, t.probe.Timeout = shutdownPeriod, shutdownTimeout
	r := &ShutdownRequest{URL: t.URL, prober: NewProber(&t.probe, nil)}
	r.prober.method = methodPost
	return r
}

// Act starts or continues a request. It returns true if no more requests are needed,
// and otherwise the latest time to call it again.
func (r *ShutdownRequest) Act() (over bool, next time.Time) {
	if r.finished {
		return true, time.Time{}
	}
	done, next := r.prober.Act()
	_, r.err = r.prober.Failure()
	switch {
	case done:
		r.finished = true
	case r.err == unix.ECONNREFUSED && r.sent && !r.prober.sent:
		r.finished, r.err = true, nil // the server shut down before it answered
	case isFinal(r.err):
		r.finished = true
	}
	r.sent = r.sent || r.prober.sent
	return r.finished, next
}

// isFinal reports whether a repeated request would get the same answer: the server is
// up, but doesn't know this request.
func isFinal(err error) bool {
	a, is := err.(*badAnswer) //nolint:errorlint // badAnswer is only created in this package
	return is && a.code >= 300 && a.code < 500
}

// Err is the error of the last request, nil after a success.
func (r *ShutdownRequest) Err() error {
	if r.err == nil && !r.finished {
		return errNoAnswer
	}
	return r.err
}

var errNoAnswer = errors.New("no answer so far")

// Poll appends the descriptors on whose events the caller calls Act.
func (r *ShutdownRequest) Poll(fds []unix.PollFd) []unix.PollFd { return r.prober.Poll(fds) }

// Close ends the current request.
func (r *ShutdownRequest) Close() { r.prober.Close() }
