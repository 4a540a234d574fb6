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

// MarkDeleted is the first step of deleting a stream: it writes the tombstone, unless the
// stream is held.
func (s *Store) MarkDeleted(ctx context.Context, id string, source Source) error {
	isHeld, err := s.IsHeld(ctx, source)
	if err == nil && isHeld {
		return nil
	}
	if err == nil {
		err = s.bury(ctx, id, source)
	}
	if err != nil {
		return fmt.Errorf("marking stream %q as deleted: %w", id, err)
	}
	return nil
}

// bury writes the tombstone of a stream.
func (s *Store) bury(ctx context.Context, id string, source Source) error {
	meta, err := json.Marshal(source)
	if err == nil {
		err = s.create(ctx, tombstones+id, meta)
	}
	if err == nil {
		err = s.bucket.Delete(ctx, directory(id)+"meta")
	}
	return err
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

// maxRemoved bounds the names of a stream's objects that RemoveObjects has in memory.
const maxRemoved = 5000

// RemoveObjects deletes the objects of a stream that were written before a time. Later
// objects stay, however late the deletion is: their writers were told that they are
// stored. The end is deleted first, so that the rest never reads as complete, and what hides
// bytes last.
func (s *Store) RemoveObjects(ctx context.Context, id string, before time.Time) error {
	for {
		old, more, err := s.oldObjects(ctx, id, before)
		if err == nil && more {
			err = s.removeEnd(ctx, id, before) // it comes late in a listing
		}
		for _, kinds := range [][]string{{"end"}, {"data", "joined", "drop", "claim"}, {"redact", "trim"}} {
			var keys []string
			for _, kind := range kinds {
				keys = append(keys, old[kind]...)
			}
			if err == nil {
				err = s.deleteAll(ctx, keys)
			}
		}
		if err != nil || !more {
			return err
		}
	}
}

// oldObjects returns keys of old objects by their kind, and whether there are more.
func (s *Store) oldObjects(ctx context.Context, id string, before time.Time) (old map[string][]string, more bool, err error) {
	old, count := map[string][]string{}, 0
	err = s.eachObject(ctx, id, func(kind string, o storage.Object) bool {
		key := o.Name
		if kind == "" {
			kind = o.Name // end, meta or erased
		} else {
			key = kind + "/" + o.Name
		}
		if o.Written.Before(before) && removable[kind] {
			if more = count == maxRemoved; more {
				return false
			}
			old[kind] = append(old[kind], directory(id)+key)
			count++
		}
		return true
	})
	return old, more, err
}

// removable has the kinds of objects that RemoveObjects deletes.
var removable = map[string]bool{"end": true, "data": true, "joined": true, "drop": true, "claim": true, "redact": true, "trim": true}

func (s *Store) removeEnd(ctx context.Context, id string, before time.Time) error {
	top, err := s.bucket.List(ctx, directory(id))
	for _, o := range top {
		if o.Name == "end" && o.Written.Before(before) && err == nil {
			err = s.bucket.Delete(ctx, directory(id)+o.Name)
		}
	}
	return err
}

// deleteAll deletes objects.
func (s *Store) deleteAll(ctx context.Context, keys []string) error {
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return s.bucket.Delete(ctx, keys[0])
	default:
		return s.bucket.DeleteAll(ctx, keys)
	}
}
