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

// A stream that isn't kept any more is buried first: gone/<id> gets what meta has,
// and meta is deleted, so that it is no stream for whoever reads or writes. When
// every replica knows, the rest is deleted, its end first and gone/<id> last. A pod
// that still writes makes it again. At each point a crash leaves something to go on from.
const graves = "gone/"

// buriedFor is how long other replicas may not know yet that a stream is gone.
const buriedFor = 5 * time.Minute

// Now is the time by the clock of the storage.
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
		if o.Name == name || now.Sub(o.Written) > time.Hour { // which a crash has left
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

// EachStream passes on the IDs of all streams, and of what is left of others.
func (s *Store) EachStream(ctx context.Context, each func(id string) bool) error {
	return s.bucket.Directories(ctx, "streams", func(name string) bool { return !isID(name) || each(name) })
}

// Bury makes a stream one that there isn't any more.
func (s *Store) Bury(ctx context.Context, id string, source Source) error {
	meta, err := json.Marshal(source)
	if err == nil {
		err = s.create(ctx, graves+id, meta)
	}
	if err == nil {
		err = s.bucket.Delete(ctx, directory(id)+"meta")
	}
	if err != nil {
		return fmt.Errorf("burying stream %q: %w", id, err)
	}
	return nil
}

// Remove deletes what is left of streams that were buried, and says how many.
func (s *Store) Remove(ctx context.Context, now time.Time) (removed int, err error) {
	var old []storage.Object
	if err := s.bucket.Each(ctx, graves, func(o storage.Object) bool {
		if isID(o.Name) && now.Sub(o.Written) >= buriedFor {
			old = append(old, o)
		}
		return len(old) < maxLooked
	}); err != nil {
		return 0, fmt.Errorf("listing streams to delete: %w", err)
	}
	for _, o := range old {
		// What came when it was looked at, before it was buried, is new as well.
		if err := s.remove(ctx, o.Name, o.Written.Add(-lookLimit)); err != nil {
			return removed, fmt.Errorf("deleting stream %q: %w", o.Name, err)
		}
		removed++
	}
	return removed, nil
}

func (s *Store) remove(ctx context.Context, id string, buried time.Time) error {
	meta, err := s.bucket.Read(ctx, graves+id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // another replica was faster
	}
	if err != nil {
		return err
	}
	var source Source
	if err := json.Unmarshal(meta, &source); err != nil {
		return fmt.Errorf("reading %s: %w", graves+id, err)
	}
	if err := s.RemoveObjects(ctx, id, buried); err != nil {
		return err
	}
	entries, err := indexOf(source)
	if err != nil {
		return err
	}
	// What a replica took that didn't know yet is kept, and so is its stream.
	if late, err := s.look(ctx, id, nil); err != nil {
		return err
	} else if len(late.data)+len(late.drops) > 0 {
		if err := s.create(ctx, directory(id)+"meta", meta); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		if err := s.bucket.Delete(ctx, entry+id); err != nil {
			return err
		}
	}
	// Whoever makes it again writes meta first, and then these.
	again, err := s.Source(ctx, id)
	if err == nil {
		err = s.index(ctx, id, again)
	}
	if err != nil && !errors.Is(err, ErrNoStream) {
		return err
	}
	return s.bucket.Delete(ctx, graves+id)
}

// RemoveObjects deletes what a stream had before a time. What came then or later stays,
// however late this is done: somebody was told that it is stored.
func (s *Store) RemoveObjects(ctx context.Context, id string, before time.Time) error {
	if err := s.removeOld(ctx, directory(id), "end", before); err != nil {
		return err
	}
	for _, kind := range []string{"data", "joined", "drop", "claim"} {
		if err := s.removeOld(ctx, directory(id)+kind+"/", "", before); err != nil {
			return err
		}
	}
	return nil
}

// removeOld deletes the objects of a directory, or the one that has a name.
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
