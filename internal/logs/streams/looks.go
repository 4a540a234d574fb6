// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/room"
)

// sharedFor is how old a layout may be that a follower is given, who has seen an
// older one.
const sharedFor = 500 * time.Millisecond

// looks are shared by those who read the same stream: one is made of each stream at
// a time, however many wait for it.
type looks struct {
	room  *room.Room
	turns chan struct{} // of those that are large

	mu sync.Mutex
	of map[string]*shared // the last of each stream
}

func newLooks() *looks {
	return &looks{room: room.New(memoryAtOnce, memoryShare), turns: make(chan struct{}, largeAtOnce), of: map[string]*shared{}}
}

// A shared layout belongs to those who hold it. Nobody changes it.
type shared struct {
	*layout
	err   error
	began time.Time
	done  chan struct{} // closed when there is the layout, or the error

	looks *looks
	id    string
	hold  *hold

	// Of looks.mu:
	holders int
	stop    context.CancelFunc // for nobody waits any more
	stopped bool
}

// see returns a look at a stream that began after a time. It is to be released.
func (s *Store) see(ctx context.Context, id string, after time.Time) (*shared, error) {
	for {
		look, fits := s.looks.join(ctx, s, id, after)
		select {
		case <-look.done:
		case <-ctx.Done():
			if fits {
				look.release()
			}
			return nil, context.Cause(ctx)
		}
		if !fits {
			continue // the next one begins now
		}
		if look.err != nil {
			look.release()
			return nil, look.err
		}
		return look, nil
	}
}

// join returns a look that fits, which is held then, or one that is under way and
// has to end before the next begins.
func (l *looks) join(ctx context.Context, s *Store, id string, after time.Time) (look *shared, fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.of[id]; last != nil {
		if last.began.After(after) && !last.stopped {
			last.holders++
			return last, true
		}
		select {
		case <-last.done:
		default:
			return last, false
		}
	}
	// Others may wait for it when this client has gone.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	look = &shared{began: time.Now(), done: make(chan struct{}), looks: l, id: id, hold: s.hold.another(), holders: 2, stop: stop}
	l.of[id] = look
	go look.run(ctx, s)
	return look, true
}

// run makes the layout, and holds it for those who come soon.
func (h *shared) run(ctx context.Context, s *Store) {
	h.layout, h.err = s.layout(ctx, h.id, h.hold)
	close(h.done)
	if h.err == nil {
		time.AfterFunc(sharedFor, h.forget)
	} else {
		h.forget()
	}
}

// forget leaves it to those who hold it.
func (h *shared) forget() {
	h.looks.mu.Lock()
	if h.looks.of[h.id] == h {
		delete(h.looks.of, h.id)
	}
	h.looks.mu.Unlock()
	h.release()
}

// release gives up what see has returned.
func (h *shared) release() {
	h.looks.mu.Lock()
	defer h.looks.mu.Unlock()
	h.holders--
	switch h.holders {
	case 1: // run
		select {
		case <-h.done:
		default:
			h.stopped = true
			h.stop()
		}
	case 0:
		h.stop()
		h.hold.release()
	}
}
