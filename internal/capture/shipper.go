// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

const (
	// A shipper that ends before its time is started again, after a pause that
	// doubles from the shortest to the longest.
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	// steady is how long one has to run for the pause to be short again.
	steady = 10 * time.Second
)

// A shipper is the process that sends what is in the ring.
type shipper struct {
	start   supervisor.Starter
	options []string
	shared  shared

	wanted  bool               // there is something to send
	ended   func() (bool, int) // nil while none runs
	began   time.Time
	next    time.Time // not to start another one before
	pause   time.Duration
	problem string
}

// care starts the shipper if there is something to do for it, wakes it, and returns
// when to be called again.
func (s *shipper) care(w *ring.Writer) time.Duration {
	s.wanted = s.wanted || printed(w)
	var count [8]byte
	_, _ = unix.Read(s.shared.news, count[:]) // what it has said is in the ring
	if s.ended != nil {
		if ended, code := s.ended(); ended {
			s.hasEnded(code)
		}
	}
	switch {
	case !s.wanted || closed(w):
		return supervisor.Forever
	case s.ended == nil:
		return s.tryStart()
	}
	s.wakeIfDue(w)
	return supervisor.Forever
}

// wakeIfDue wakes the shipper if there is something to do for it that it waits for.
func (s *shipper) wakeIfDue(w *ring.Writer) {
	if s.ended != nil && w.ReaderWaits() {
		ring.Wake(s.shared.wake)
	}
}

// poll adds the descriptor by which the shipper tells that there is something to say.
func (s *shipper) poll(fds []unix.PollFd) []unix.PollFd {
	if s.ended == nil {
		return fds
	}
	return append(fds, unix.PollFd{Fd: int32(s.shared.news), Events: unix.POLLIN}) //nolint:gosec // descriptors are ints of C
}

func (s *shipper) hasEnded(code int) {
	s.ended = nil
	if time.Since(s.began) > steady {
		s.pause = 0
	}
	s.pause = min(max(2*s.pause, shortestPause), longestPause)
	s.next = time.Now().Add(s.pause)
	s.problem = "the shipper has ended, with exit code " + strconv.Itoa(code)
}

func (s *shipper) tryStart() time.Duration {
	if left := time.Until(s.next); left > 0 {
		return left
	}
	s.began = time.Now()
	var files []uintptr
	for _, fd := range s.shared.descriptors {
		files = append(files, uintptr(fd))
	}
	ended, err := s.start(itself(), append([]string{shipperName}, s.options...), s.environment(), files)
	if err != nil {
		s.hasEnded(0)
		s.problem = "starting the shipper: " + err.Error()
		return s.pause
	}
	s.ended = ended
	return supervisor.Forever
}

// environment has the variables that are masked, and no others: those that tell
// Go's runtime or its HTTP client what to do are the command's.
func (s *shipper) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(s.options, "-mask-env="+name)
	})
}

// printed reports whether the command has printed something.
func printed(w *ring.Writer) bool {
	return slices.ContainsFunc(ring.Printed[:], func(s ring.Stream) bool { return w.Written(s) > 0 })
}

// closed reports whether the log service knows the ends of all streams.
func closed(w *ring.Writer) bool {
	for _, stream := range ring.Streams {
		if _, closed := w.Done(stream); !closed {
			return false
		}
	}
	return true
}

// done reports whether there is nothing more to wait for.
func (s *shipper) done(w *ring.Writer) bool { return !s.wanted || closed(w) }

// failure is why nothing is sent at the moment, "" if nothing is wrong.
func (s *shipper) failure(w *ring.Writer) string {
	if said := w.Failure(); said != "" || s.ended != nil || !s.wanted || closed(w) {
		return said
	}
	return s.problem
}
