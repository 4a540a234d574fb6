// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

// tell writes a line to the container's own stderr, which the cluster's log has. It
// reports false if a reader of that file is so slow that the supervisor would have to
// wait.
func (c *Capture) tell(line string) bool {
	to := c.pipes[ring.Stderr].original
	fds := []unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}} //nolint:gosec // descriptors are ints of C
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return false
	}
	_, _ = supervisor.Write(to, []byte("entrypointer: "+line+"\n")) // an error can't be reported anywhere
	return true
}

const (
	// The lines about lost bytes are at least betweenLosses apart, and at most maxLosses, so
	// that they don't fill the cluster's log.
	betweenLosses = time.Minute
	maxLosses     = 10
)

// losses are what was told of lost bytes.
type losses struct {
	told  int64     // how many lost bytes are known
	last  time.Time // of the last line
	lines int
}

// reportLoss tells that the ring begins to lose bytes, and what to do.
func (c *Capture) reportLoss(now time.Time) {
	var lost int64
	for _, s := range ring.Printed {
		lost += c.ring.Lost(s)
	}
	if lost == c.losses.told || c.losses.lines == maxLosses || now.Sub(c.losses.last) < betweenLosses {
		return
	}
	text := "sending logs: output is dropped, because the command prints more than the log service takes, and the memory for unsent output (" +
		strconv.FormatInt(c.ring.Capacity(ring.Stdout)>>10, 10) + "Ki) is full"
	if failure := c.shipper.failure(c.ring); failure != "" {
		text += ": " + failure
	}
	way := "to have the command wait instead, set annotation entrypointer.dev/logs-when-full: block"
	if c.brake.bound > 0 {
		way = "the command has waited for " + c.brake.bound.String() + "; to have it wait longer, set annotation entrypointer.dev/logs-when-full: block:DURATION"
	}
	if c.tell(text + "; " + way + ", or have more memory, by entrypointer.dev/logs-buffer") {
		c.losses = losses{told: lost, last: now, lines: c.losses.lines + 1}
	}
}
