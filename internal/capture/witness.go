// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/secretfiles"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

const (
	// After an inspection, the files rest for restFactor times as long as it took, and at
	// least for shortestRest, at most for longestRest: five sixths of the time for up to 50
	// ms of inspecting.
	restFactor   = 5
	shortestRest = 5 * time.Millisecond
	longestRest  = 250 * time.Millisecond
	// inspectInterval is the longest time between two inspections. The kernel doesn't notify
	// of changes on all file systems.
	inspectInterval = time.Second
	// patience is how long an inspection may take before it is a failure. A shipper that
	// finds the same reports it first.
	patience = 2 * secretfiles.SlowAfter
	// gcPercent is for package debug: the heap grows to 1 MiB instead of 4 before it is
	// collected.
	gcPercent = 25
)

// A witness has the masked files inspected whenever something was printed, and whenever
// they change. Bytes are held back until an inspection that began after they were read, so
// the shipper knows each secret before the bytes that may have it.
//
// The files may be on a volume whose server is gone, so a goroutine of its own inspects
// them. The loop yields to it once. If the files don't respond, the runtime has the loop
// go on in another thread, and a result wakes the loop later.
type witness struct {
	files    *secretfiles.Witness
	requests chan struct{}
	results  chan inspected
	done     int // an eventfd: there is a result

	underWay  bool
	asked     ring.Offsets // what was written when the inspection was requested
	wakes     uint64       // signals.Wakes at that time
	askedAt   time.Time
	nextAfter time.Time // the end of the rest
	failure   string    // why bytes are held back for long
}

// inspected is the result of an inspection.
type inspected struct {
	took time.Duration
	err  error
}

// newWitness begins to inspect files, and to remember their content in a snapshot.
func newWitness(paths []string, snapshot int) (*witness, error) {
	remembered, err := ring.OpenSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	done, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.New("eventfd: " + err.Error())
	}
	// Threads that pass each request on would take more time than the inspection, and the
	// garbage of inspections more memory than the supervisor.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(gcPercent)
	files := secretfiles.NewWitness(paths, remembered)
	w := &witness{files: files, requests: make(chan struct{}, 1), results: make(chan inspected, 1), done: done}
	go func() {
		for range w.requests {
			began := time.Now()
			err := files.Inspect()
			w.results <- inspected{time.Since(began), err}
			ring.Wake(done)
		}
	}()
	w.request(ring.Offsets{})
	return w, nil
}

// poll adds the descriptor by which the goroutine wakes the loop.
func (w *witness) poll(fds []unix.PollFd) []unix.PollFd {
	return append(fds, unix.PollFd{Fd: int32(w.done), Events: unix.POLLIN}) //nolint:gosec // descriptors are ints of C
}

// advance releases bytes, requests the next inspection if it is due, and returns when to
// call advance again.
func (w *witness) advance(memory *ring.Writer) time.Duration {
	w.takeResult(memory)
	if !w.underWay && w.timeLeft(memory) <= 0 {
		w.request(memory.Offsets())
		w.takeResult(memory)
	}
	switch {
	case !w.underWay:
		return w.timeLeft(memory)
	case w.failure != "" || !memory.HoldsBytes():
		return output.Forever // a result wakes the loop
	}
	slow := time.Until(w.askedAt.Add(patience))
	if slow <= 0 {
		w.failure, slow = w.files.Slow(), output.Forever
	}
	return slow
}

// timeLeft returns the time until the next inspection.
func (w *witness) timeLeft(memory *ring.Writer) time.Duration {
	if memory.HoldsBytes() || w.wakes != signals.Wakes() {
		return time.Until(w.nextAfter)
	}
	return time.Until(w.askedAt.Add(inspectInterval))
}

// request requests an inspection, after which bytes up to some offsets are released.
func (w *witness) request(written ring.Offsets) {
	w.underWay, w.asked, w.wakes, w.askedAt = true, written, signals.Wakes(), time.Now()
	w.requests <- struct{}{} // which has room: the last one was answered
	runtime.Gosched()
}

// takeResult releases what was written before the inspection that has ended.
func (w *witness) takeResult(memory *ring.Writer) {
	var count [8]byte
	_, _ = unix.Read(w.done, count[:])
	select {
	case result := <-w.results:
		w.underWay = false
		rest := min(max(restFactor*result.took, shortestRest), longestRest)
		if w.failure = ""; result.err == nil {
			memory.Release(w.asked)
		} else {
			w.failure, rest = result.err.Error(), inspectInterval
		}
		w.nextAfter = time.Now().Add(rest)
	default:
	}
}
