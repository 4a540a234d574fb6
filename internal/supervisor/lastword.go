// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
)

const (
	// lastWordWithin limits the time in which the published end is repeated after an
	// error, and lastWordAfterStop that time once the container was asked to stop.
	lastWordWithin    = 5 * time.Second
	lastWordAfterStop = time.Second
	// syncWithin limits the time for which the process waits for the disk.
	syncWithin = 2 * time.Second
)

// completeLastWord has the published end outlast this process and a crash of the node.
func (s *supervision) completeLastWord() {
	if s.incarnation == nil {
		return
	}
	s.repeatLastWord()
	if s.incarnation.Err() == nil {
		s.syncLastWord()
	}
}

// repeatLastWord repeats the published end until other containers can read it. No later
// call would repeat it.
func (s *supervision) repeatLastWord() {
	if s.incarnation == nil || s.lastWordRepeated {
		return
	}
	s.lastWordRepeated = true
	began := time.Now()
	_ = s.until(func() time.Duration {
		if s.incarnation.Err() == nil {
			return done
		}
		within := lastWordWithin
		if s.stopCame() {
			within = lastWordAfterStop
		}
		return doneAt(began.Add(within))
	})
}

// syncLastWord writes the end to the disk. After a crash of the node, a completed
// container isn't always run again, and containers that depend on it would wait for its
// end.
//
// A thread waits for the disk, and the process ends without it when the time is up. A
// child process would need memory, and could be killed by the container's limit together
// with this process. While the kernel lets no signal interrupt the wait, it keeps the
// rest of an ended process, which no program can prevent.
func (s *supervision) syncLastWord() {
	var synced atomic.Bool
	go func() {
		s.incarnation.Sync()
		synced.Store(true)
		signals.Wake()
	}()
	deadline := time.Now().Add(syncWithin)
	_ = s.until(func() time.Duration {
		if synced.Load() {
			return done
		}
		return doneAt(deadline)
	})
}

// doneAt returns the time until the deadline, or done if it is over.
func doneAt(deadline time.Time) time.Duration {
	left := time.Until(deadline)
	if left <= 0 {
		return done
	}
	return left
}
