// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package shipping

import (
	"log"
	"slices"
	"sync"
	"time"
)

// A Recorder has what requests took.
type Recorder struct {
	mu     sync.Mutex
	writes []write
	failed int // of requests that were made again
}

type write struct {
	began time.Time
	took  time.Duration
}

// Succeeded notes a write that began at some time, and was answered now.
func (r *Recorder) Succeeded(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, write{began, time.Since(began)})
}

// Repeated notes a request that is made again. The first ones are logged.
func (r *Recorder) Repeated(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; r.failed <= maxLogged {
		log.Printf("again: %v", err)
	}
}

const maxLogged = 3

// Failures returns how many requests were made again.
func (r *Recorder) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Writes returns how many writes were answered.
func (r *Recorder) Writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes)
}

// Between returns the sorted times of the writes that began in a span.
func (r *Recorder) Between(from, to time.Time) (took []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.writes {
		if !w.began.Before(from) && w.began.Before(to) {
			took = append(took, w.took)
		}
	}
	slices.Sort(took)
	return took
}
