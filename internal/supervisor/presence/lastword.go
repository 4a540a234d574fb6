// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package presence

import (
	"sync/atomic"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
)

const (
	// lastWordWithin limits the time in which the published end is repeated after an
	// error, and lastWordAfterStop that time once the container was asked to stop.
	lastWordWithin    = 5 * time.Second
	lastWordAfterStop = time.Second
	// syncWithin limits the time for which the process waits for the disk.
	syncWithin = 2 * time.Second
)

// CompleteLastWord has the published end outlast this process and a crash of the node.
func (p *Presence) CompleteLastWord() {
	if p.incarnation == nil {
		return
	}
	p.RepeatLastWord()
	if p.incarnation.Err() == nil {
		p.syncLastWord()
	}
}

// RepeatLastWord repeats the published end until other containers can read it. No later
// call would repeat it.
func (p *Presence) RepeatLastWord() {
	if p.incarnation == nil || p.lastWordRepeated {
		return
	}
	p.lastWordRepeated = true
	began := time.Now()
	_ = p.life.Until(func() time.Duration {
		if p.incarnation.Err() == nil {
			return life.Done
		}
		within := lastWordWithin
		if p.life.StopCame() {
			within = lastWordAfterStop
		}
		return life.At(began.Add(within))
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
func (p *Presence) syncLastWord() {
	var synced atomic.Bool
	go func() {
		p.incarnation.Sync()
		synced.Store(true)
		signals.Wake()
	}()
	deadline := time.Now().Add(syncWithin)
	_ = p.life.Until(func() time.Duration {
		if synced.Load() {
			return life.Done
		}
		return life.At(deadline)
	})
}
