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
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

const (
	// A shipper that ends too early is started again, after a pause that doubles from
	// shortestPause to longestPause.
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	// stableAfter is how long a shipper has to run for the next pause to be short again.
	stableAfter = 10 * time.Second
)

// A shipperProcess starts, restarts and wakes the process that sends the content of the ring.
type shipperProcess struct {
	start   output.Starter
	options []string
	shared  shared

	needed         bool               // the ring has had something to send
	pollExit       func() (bool, int) // reports whether the process has ended, and its exit code; nil without a process
	startedAt      time.Time
	nextStart      time.Time // the earliest time of the next start
	pause          time.Duration
	processFailure string // how the last process failed
}

// hearNews resets the counter by which the process wakes the supervisor. It comes before
// any look at the ring, which has the message itself: what comes later wakes the loop once
// more.
func (s *shipperProcess) hearNews() {
	var count [8]byte
	_, _ = unix.Read(s.shared.news, count[:])
}

// maintain starts or wakes the process if it has work, and returns when to call maintain
// again.
func (s *shipperProcess) maintain(w *ring.Writer) time.Duration {
	s.needed = s.needed || printed(w)
	if s.pollExit != nil {
		if ended, code := s.pollExit(); ended {
			s.handleExit(code)
		}
	}
	switch {
	case !s.needed || isComplete(w):
		return output.Forever
	case s.pollExit == nil:
		return s.tryStart()
	}
	s.wakeIfDue(w)
	return output.Forever
}

// wakeIfDue wakes the process if the ring has what it sleeps for.
func (s *shipperProcess) wakeIfDue(w *ring.Writer) {
	if s.pollExit != nil && w.ClaimWake() {
		ring.Wake(s.shared.wake)
	}
}

// poll adds the descriptor by which the process wakes the supervisor.
func (s *shipperProcess) poll(fds []unix.PollFd) []unix.PollFd {
	if s.pollExit == nil {
		return fds
	}
	return append(fds, unix.PollFd{Fd: int32(s.shared.news), Events: unix.POLLIN}) //nolint:gosec // descriptors are ints of C
}

func (s *shipperProcess) handleExit(code int) {
	s.pollExit = nil
	if time.Since(s.startedAt) > stableAfter {
		s.pause = 0
	}
	s.pause = min(max(2*s.pause, shortestPause), longestPause)
	s.nextStart = time.Now().Add(s.pause)
	s.processFailure = "the shipper has ended, with exit code " + strconv.Itoa(code)
}

func (s *shipperProcess) tryStart() time.Duration {
	if left := time.Until(s.nextStart); left > 0 {
		return left
	}
	s.startedAt = time.Now()
	var files []uintptr
	for _, fd := range s.shared.descriptors {
		files = append(files, uintptr(fd))
	}
	ended, err := s.start(ownPath(), append([]string{shipperName}, s.options...), s.environment(), files)
	if err != nil {
		s.handleExit(0)
		s.processFailure = "starting the shipper: " + err.Error()
		return s.pause
	}
	s.pollExit = ended
	return output.Forever
}

// environment returns only the variables to mask. Others, such as GODEBUG and
// HTTPS_PROXY, are meant for the command.
func (s *shipperProcess) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(s.options, "-mask-env="+name)
	})
}

// printed reports whether the command has printed something.
func printed(w *ring.Writer) bool {
	return slices.ContainsFunc(ring.Printed[:], func(s ring.Stream) bool { return w.Written(s) > 0 })
}

// isComplete reports whether the log service has the ends of all streams.
func isComplete(w *ring.Writer) bool {
	for _, stream := range ring.Streams {
		if _, complete := w.ReaderProgress(stream); !complete {
			return false
		}
	}
	return true
}

// isDone reports whether nothing is left to send.
func (s *shipperProcess) isDone(w *ring.Writer) bool { return !s.needed || isComplete(w) }

// failure returns why nothing is sent at the moment, "" if all is well.
func (s *shipperProcess) failure(w *ring.Writer) string {
	if said := w.Failure(); said != "" || s.pollExit != nil || !s.needed || isComplete(w) {
		return said
	}
	return s.processFailure
}
