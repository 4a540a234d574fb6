// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// followed/<id>-<slot> says to all replicas that somebody follows a stream: its writers are
// then told not to linger. Objects never change, so each slot of time has one of its own.
const followed = "followed/"

const (
	// followSlot is the length of a slot.
	followSlot = time.Minute
	// followedFor is for how many slots a sign counts. It has room for clocks of replicas
	// that differ by a slot.
	followedFor = 2
	// followsTTL is how long a listing of the signs is cached.
	followsTTL = 10 * time.Second
	// followsTimeout bounds a listing: the response to a writer waits for it.
	followsTimeout = 2 * time.Second
	// maxFollows bounds the signs that are cached, of some 100 bytes each.
	maxFollows = 20_000
)

// follows are the streams that are followed, as this replica knows it.
type follows struct {
	mu       sync.Mutex
	here     map[string]int64 // the last slot that this replica has a sign for, by ID
	listed   map[string]int64 // the last slot of the last listing
	listedAt time.Time        // when it began
	failed   error            // why it failed
}

func newFollows() *follows { return &follows{here: map[string]int64{}} }

// slotAt returns the slot of a time.
func slotAt(t time.Time) int64 { return t.Unix() / int64(followSlot/time.Second) }

// isNear reports whether a sign for a slot counts.
func isNear(slot, now int64) bool { return max(slot-now, now-slot) <= followedFor }

// NoteFollower tells all replicas that somebody follows a stream now. Followers call it for
// as long as they wait for more bytes. It seldom writes.
func (s *Store) NoteFollower(ctx context.Context, id string) error {
	now := slotAt(time.Now())
	if !s.follows.isNew(id, now) {
		return nil
	}
	err := s.bucket.Create(ctx, followed+id+"-"+strconv.FormatInt(now, 10), nil)
	if err != nil && !errors.Is(err, storage.ErrExists) {
		s.follows.forget(id)
		return fmt.Errorf("noting that stream %q is followed: %w", id, err)
	}
	return nil
}

// isNew notes a follower in a slot, and reports whether there was none.
func (f *follows) isNew(id string, now int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, known := f.here[id]; known && last == now {
		return false
	}
	for other, last := range f.here {
		if !isNear(last, now) {
			delete(f.here, other)
		}
	}
	f.here[id] = now
	return true
}

func (f *follows) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.here, id)
}

// IsFollowed reports whether somebody follows a stream, or has done so a moment ago.
func (s *Store) IsFollowed(ctx context.Context, id string) (bool, error) {
	now := time.Now()
	is, due, err := s.follows.look(id, now)
	if !due {
		return is, err
	}
	listed, err := s.listFollows(ctx, now)
	s.follows.set(listed, err)
	is, _, err = s.follows.look(id, now)
	return is, err
}

// look says what is known. If the listing is old, due tells one caller to renew it: one
// listing serves all streams, and others use the former one meanwhile.
func (f *follows) look(id string, now time.Time) (is, due bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, known := f.here[id]; known && isNear(last, slotAt(now)) {
		return true, false, nil
	}
	if now.Sub(f.listedAt) >= followsTTL {
		f.listedAt = now
		return false, true, nil
	}
	last, known := f.listed[id]
	return known && isNear(last, slotAt(now)), false, f.failed
}

func (f *follows) set(listed map[string]int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed, f.failed = listed, err
}

// listFollows returns the last slot in which each stream was followed.
func (s *Store) listFollows(ctx context.Context, now time.Time) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, followsTimeout)
	defer cancel()
	listed := map[string]int64{}
	err := s.bucket.Each(ctx, followed, func(o storage.Object) bool {
		if id, slot, ok := parseFollow(o.Name); ok && isNear(slot, slotAt(now)) {
			listed[id] = max(listed[id], slot)
		}
		return len(listed) < maxFollows
	})
	if err != nil {
		return nil, fmt.Errorf("listing the streams that are followed: %w", err)
	}
	return listed, nil
}

func parseFollow(name string) (id string, slot int64, ok bool) {
	id, text, _ := strings.Cut(name, "-")
	slot, err := strconv.ParseInt(text, 10, 64)
	return id, slot, err == nil && IsID(id)
}

// ForgetFollowers deletes the signs of followers that don't count any more.
func (s *Store) ForgetFollowers(ctx context.Context) error {
	old, now := []string{}, slotAt(time.Now())
	err := s.bucket.Each(ctx, followed, func(o storage.Object) bool {
		if _, slot, ok := parseFollow(o.Name); !ok || !isNear(slot, now) {
			old = append(old, o.Name)
		}
		return len(old) < maxListedObjects
	})
	for _, name := range old {
		err = errors.Join(err, s.bucket.Delete(ctx, followed+name))
	}
	if err != nil {
		return fmt.Errorf("deleting the signs of former followers: %w", err)
	}
	return nil
}
