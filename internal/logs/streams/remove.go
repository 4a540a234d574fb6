// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A stream is deleted in two steps. First, gone/<id>, its tombstone, gets the content of
// meta, and meta is deleted: for readers and writers, the stream doesn't exist any more.
// After tombstoneAge, the other objects are deleted, the end first and the tombstone last.
// Until then, the stream can be restored. A pod that still writes creates the stream again.
// After a crash at any point, the next call continues.
const tombstones = "gone/"

// tombstoneAge is how long a deletion can be undone. It is longer than other replicas may
// still take a deleted stream for an existing one.
const tombstoneAge = 25 * time.Hour

// Now returns the time of the storage's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	const directory = "clock"
	name := rand.Text()
	if err := s.bucket.Create(ctx, path.Join(directory, name), nil); err != nil {
		return now, fmt.Errorf("asking the storage for the time: %w", err)
	}
	objects, err := s.bucket.List(ctx, directory)
	for _, o := range objects {
		if o.Name == name {
			now = o.Written
		}
	}
	for _, o := range objects {
		if o.Name == name || now.Sub(o.Written) > time.Hour { // left by a crash
			err = errors.Join(err, s.bucket.Delete(ctx, path.Join(directory, o.Name)))
		}
	}
	if err == nil && now.IsZero() {
		err = errors.New("an object that was just written isn't listed")
	}
	if err != nil {
		return now, fmt.Errorf("asking the storage for the time: %w", err)
	}
	return now, nil
}

// EachStream calls each for the IDs of all streams, including those whose meta is
// deleted.
func (s *Store) EachStream(ctx context.Context, each func(id string) bool) error {
	return s.bucket.Directories(ctx, "streams", func(name string) bool { return !IsID(name) || each(name) })
}

// MarkDeleted is the first step of deleting a stream: it writes the tombstone, unless the
// stream is held.
func (s *Store) MarkDeleted(ctx context.Context, id string, source Source) error {
	isHeld, err := s.IsHeld(ctx, source)
	if err == nil && isHeld {
		return nil
	}
	meta := []byte{}
	if err == nil {
		meta, err = json.Marshal(source)
	}
	if err == nil {
		err = s.create(ctx, tombstones+id, meta)
	}
	if err == nil {
		err = s.bucket.Delete(ctx, directory(id)+"meta")
	}
	if err != nil {
		return fmt.Errorf("marking stream %q as deleted: %w", id, err)
	}
	return nil
}

// oldTombstones returns the tombstones that were written before a time or, because the
// clock was wrong then, after another.
func (s *Store) oldTombstones(ctx context.Context, before, after time.Time) (old []storage.Object, err error) {
	if err := s.bucket.Each(ctx, tombstones, func(o storage.Object) bool {
		if IsID(o.Name) && (!o.Written.After(before) || o.Written.After(after)) {
			old = append(old, o)
		}
		return len(old) < maxListedObjects
	}); err != nil {
		return nil, fmt.Errorf("listing deleted streams: %w", err)
	}
	return old, nil
}

// FinishDeletions looks at old tombstones, and at those from the future. It undoes the first
// step for streams whose retention isn't over, because the clock was wrong when they were
// marked as deleted, or because the retention was shorter, and for those that are held. For others whose tombstones are
// old it takes the second step, unless the time is in doubt: it deletes their objects. It
// returns the numbers of streams. A failure for one stream doesn't stop the others.
func (s *Store) FinishDeletions(ctx context.Context, now time.Time, keep func(namespace string) time.Duration, inDoubt bool) (restored, removed int, err error) {
	list, err := s.oldTombstones(ctx, now.Add(-tombstoneAge), now.Add(settleTime))
	if err != nil {
		return 0, 0, err
	}
	failed := 0
	for _, o := range list {
		did, failure := s.restore(ctx, o, now, keep)
		switch {
		case failure != nil:
		case did:
			restored++
			continue
		case inDoubt || o.Written.After(now.Add(-tombstoneAge)):
			continue
		default:
			// Writes during the listing before the tombstone count as new, too.
			failure = s.remove(ctx, o.Name, o.Written.Add(-listTimeout))
		}
		if failure == nil {
			removed++
		} else if failed++; err == nil {
			err = fmt.Errorf("finishing the deletion of stream %q: %w", o.Name, failure)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed > 1 {
		err = fmt.Errorf("%d streams failed, the first one: %w", failed, err)
	}
	return restored, removed, err
}

func (s *Store) restore(ctx context.Context, tombstone storage.Object, now time.Time, keep func(namespace string) time.Duration) (did bool, err error) {
	id := tombstone.Name
	meta, source, err := s.buried(ctx, id)
	if err != nil || meta == nil {
		return false, err
	}
	t := tidier{store: s, id: id, now: now}
	if err := t.inspect(ctx); err != nil {
		return false, err
	}
	last := time.Time{}
	for _, pieces := range [][]piece{t.drops, t.data, t.joined} {
		for _, p := range pieces {
			if p.written.Before(tombstone.Written.Add(-listTimeout)) { // later ones are kept by remove
				last = latest(last, p.written)
			}
		}
	}
	isOver := false
	if retention := keep(source.Namespace); retention > 0 && now.Sub(last) > retention {
		isHeld, err := s.IsHeld(ctx, source)
		if isOver = !isHeld; err != nil {
			return false, err
		}
	}
	if last.IsZero() || isOver {
		return false, nil
	}
	if err := s.create(ctx, directory(id)+"meta", meta); err != nil {
		return false, err
	}
	if err := s.index(ctx, id, source); err != nil {
		return false, err
	}
	return true, s.bucket.Delete(ctx, tombstones+id)
}

// buried returns the meta that a tombstone has, or nil if another replica has deleted it.
func (s *Store) buried(ctx context.Context, id string) (meta []byte, source Source, err error) {
	meta, err = s.bucket.Read(ctx, tombstones+id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, source, nil
	}
	if err != nil {
		return nil, source, err
	}
	if err := json.Unmarshal(meta, &source); err != nil {
		return nil, source, fmt.Errorf("reading %s: %w", tombstones+id, err)
	}
	return meta, source, nil
}

// IsDeleted reports whether a stream has a tombstone.
func (s *Store) IsDeleted(ctx context.Context, id string) (bool, error) {
	meta, _, err := s.buried(ctx, id)
	return meta != nil, err
}

// remove is the second step of deleting a stream.
func (s *Store) remove(ctx context.Context, id string, buried time.Time) error {
	meta, source, err := s.buried(ctx, id)
	if err != nil || meta == nil {
		return err
	}
	if err := s.RemoveObjects(ctx, id, buried); err != nil {
		return err
	}
	// A replica with a cached source may have stored bytes since: keep them, and the stream.
	if late, err := s.listPieces(ctx, id); err != nil {
		return err
	} else if len(late.data)+len(late.drops) > 0 {
		if err := s.create(ctx, directory(id)+"meta", meta); err != nil {
			return err
		}
	}
	if err := s.unindex(ctx, id, source); err != nil {
		return err
	}
	return s.bucket.Delete(ctx, tombstones+id)
}

// RemoveObjects deletes the objects of a stream that were written before a time. Later
// objects stay, however late the deletion is: their writers were told that they are
// stored.
func (s *Store) RemoveObjects(ctx context.Context, id string, before time.Time) error {
	if err := s.removeOld(ctx, directory(id), "end", before); err != nil {
		return err
	}
	for _, kind := range []string{"data", "joined", "drop", "claim", "redact", "trim"} {
		if err := s.removeOld(ctx, directory(id)+kind+"/", "", before); err != nil {
			return err
		}
	}
	return nil
}

// removeOld deletes old objects of a directory: only the one with a name, or all if the
// name is "".
func (s *Store) removeOld(ctx context.Context, directory, only string, before time.Time) (err error) {
	objects, err := s.bucket.List(ctx, directory)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if only != "" && o.Name != only || !o.Written.Before(before) {
			continue
		}
		if err := s.bucket.Delete(ctx, directory+o.Name); err != nil {
			return err
		}
	}
	return nil
}
