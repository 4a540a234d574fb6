// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A stream is erased because somebody wants it gone, at once and for good, unlike a stream
// whose retention is over (remove.go). streams/<id>/erased gets the content of meta, and a
// trim up to the last known byte hides everything from all readers. Then meta, the objects
// and the index entries are deleted, the latter last, so that a repeated request finds what
// is left.
//
// The trim stays for erasedAge, with the end of the stream. It hides what comes late: a
// repeated request, or an object of a replica that was joining meanwhile. FinishErasure
// deletes these. What a pod prints after the erasure is behind the trim, and makes the
// stream exist again.
const erased = "erased"

const (
	// erasedAge is for how long late writes of erased bytes are expected: longer than the
	// tokens of a deleted pod are valid, and than a shipper repeats a request.
	erasedAge = 7 * 24 * time.Hour
	// erasers bounds the streams that one request erases in parallel. Each may have MaxPieces
	// names of objects in memory several times.
	erasers = 4
)

// An Erasure says what was deleted, or for a dry run, what would be.
type Erasure struct {
	Streams int
	Bytes   int64 // before compression
	// Left is how many streams are left because of a failure or of a lack of time. A repeated
	// request continues.
	Left int
}

func (e *Erasure) add(other Erasure) {
	e.Streams, e.Bytes, e.Left = e.Streams+other.Streams, e.Bytes+other.Bytes, e.Left+other.Left
}

// ErasePod erases the streams of all pods with a name that are chosen. It returns ErrHeld,
// and erases none, if one of these is held. After an error, and when ctx is done, some streams
// are left.
func (s *Store) ErasePod(ctx context.Context, namespace, pod string, chosen func(Listed) (bool, error), dryRun bool) (all Erasure, err error) {
	directory, err := podDirectory(namespace, pod)
	if err != nil {
		return all, fmt.Errorf("deleting streams: %w", err)
	}
	list, err := s.toErase(ctx, namespace, directory, chosen)
	if err == nil {
		all, err = s.eraseAll(ctx, list, dryRun)
	}
	if err != nil {
		return all, fmt.Errorf("deleting streams of pod %q in namespace %q: %w", pod, namespace, err)
	}
	return all, nil
}

// toErase returns the chosen streams of a directory of the index.
func (s *Store) toErase(ctx context.Context, namespace, directory string, chosen func(Listed) (bool, error)) (list []Listed, err error) {
	var entries []storage.Object
	if err := s.bucket.Each(ctx, directory, func(o storage.Object) bool {
		entries = append(entries, o)
		return len(entries) < maxListedObjects
	}); err != nil {
		return nil, err
	}
	holds, err := s.Holds(ctx, namespace)
	if err != nil {
		return nil, err
	}
	found := make([]Listed, len(entries))
	if err := inParallel(ctx, len(entries), func(ctx context.Context, at int) (err error) {
		found[at], err = s.anySource(ctx, entries[at])
		return err
	}); err != nil {
		return nil, err
	}
	for _, l := range found {
		isChosen, err := chosen(l)
		switch {
		case err != nil:
			return nil, err
		case !isChosen || l.Namespace == "":
			continue
		case holds.Has(l.Source):
			return nil, ErrHeld
		}
		list = append(list, l)
	}
	return list, nil
}

// anySource returns a stream of the index, also if it has a tombstone, or if its erasure was
// interrupted. Without a namespace, nothing is known of it.
func (s *Store) anySource(ctx context.Context, o storage.Object) (l Listed, err error) {
	l = Listed{ID: o.Name, Created: o.Written}
	if !IsID(o.Name) {
		return l, nil
	}
	for _, key := range []string{directory(o.Name) + "meta", tombstones + o.Name, directory(o.Name) + erased} {
		meta, err := s.bucket.Read(ctx, key)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(meta, &l.Source)
		}
		if err != nil {
			return l, fmt.Errorf("reading %s: %w", key, err)
		}
		return l, nil
	}
	return l, nil
}

// eraseAll erases streams, some at the same time. A failure for one doesn't stop the others.
func (s *Store) eraseAll(ctx context.Context, list []Listed, dryRun bool) (all Erasure, err error) {
	var group errgroup.Group
	group.SetLimit(erasers)
	var mu sync.Mutex
	for _, l := range list {
		group.Go(func() error {
			one, failure := Erasure{}, ctx.Err()
			switch {
			case failure != nil:
			case dryRun:
				one.Streams = 1
				_, one.Bytes, failure = s.extent(ctx, l.ID)
			default:
				one, failure = s.Erase(ctx, l.ID, l.Source)
			}
			if failure != nil {
				one = Erasure{Left: 1}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(one)
			if err == nil {
				err = failure
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return all, err
}

// extent returns the offset behind the last known byte of a stream, and how many bytes it
// has stored that aren't trimmed.
func (s *Store) extent(ctx context.Context, id string) (end, bytes int64, err error) {
	if end, _, err = s.length(ctx, id); err != nil {
		return 0, 0, err
	}
	var stored Ranges
	var trimmed int64
	err = s.eachObject(ctx, id, func(kind string, o storage.Object) bool {
		p, ok := pieceOf(o, kind)
		if !ok || kind == "" || kind == "redact" {
			return true
		}
		end = max(end, p.object.To)
		switch {
		case p.deleted:
			trimmed = max(trimmed, p.object.To)
		case !p.dropped:
			stored = stored.With(p.object)
		}
		return true
	})
	for _, r := range stored {
		bytes += max(0, r.To-max(r.From, trimmed))
	}
	return end, bytes, err
}

// Erase erases a stream. It is idempotent.
func (s *Store) Erase(ctx context.Context, id string, source Source) (Erasure, error) {
	bytes, err := s.erase(ctx, id, source)
	if err != nil {
		return Erasure{Left: 1}, fmt.Errorf("deleting stream %q: %w", id, err)
	}
	return Erasure{Streams: 1, Bytes: bytes}, nil
}

func (s *Store) erase(ctx context.Context, id string, source Source) (bytes int64, err error) {
	meta, err := json.Marshal(source)
	if err != nil {
		return 0, err
	}
	end, bytes, err := s.extent(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := s.create(ctx, directory(id)+erased, meta); err != nil {
		return 0, err
	}
	if end > 0 {
		if err := s.create(ctx, directory(id)+"trim/"+rangeName(Range{0, end}), nil); err != nil {
			return 0, err
		}
	}
	for _, key := range []string{directory(id) + "meta", tombstones + id} {
		if err := s.bucket.Delete(ctx, key); err != nil {
			return 0, err
		}
	}
	if err := s.deleteErased(ctx, id); err != nil {
		return 0, err
	}
	return bytes, s.unindex(ctx, id, source)
}

// deleteErased deletes the objects of a stream that are trimmed. Claims have no output, and
// those of clients that go on are still needed.
func (s *Store) deleteErased(ctx context.Context, id string) error {
	v, err := s.listPieces(ctx, id)
	if err != nil {
		return err
	}
	t := tidier{store: s, id: id, view: v}
	t.Trimmed = v.trimmed()
	return t.deleteTrimmed(ctx)
}

// unindex removes a stream from the index, unless a pod has created it again.
func (s *Store) unindex(ctx context.Context, id string, source Source) error {
	entries, err := indexDirectories(source)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(entries) { // that of the pod last: it leads back here
		if err := s.bucket.Delete(ctx, entry+id); err != nil {
			return err
		}
	}
	// If a pod creates the stream again, it writes meta first, and these entries after it.
	again, err := s.Source(ctx, id)
	if errors.Is(err, ErrNoStream) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.index(ctx, id, again)
}

// FinishErasure continues the erasure of a stream without meta, and deletes what has come
// late. If its pod has gone on, it makes the stream exist again, and after erasedAge it
// deletes the rest. It reports whether the stream was erased.
func (s *Store) FinishErasure(ctx context.Context, id string, now time.Time) (is bool, err error) {
	meta, err := s.bucket.Read(ctx, directory(id)+erased)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	var source Source
	if err == nil {
		err = json.Unmarshal(meta, &source)
	}
	if err == nil {
		err = s.finishErasure(ctx, id, source, meta, now)
	}
	if err != nil {
		return true, fmt.Errorf("finishing the deletion of stream %q: %w", id, err)
	}
	return true, nil
}

func (s *Store) finishErasure(ctx context.Context, id string, source Source, meta []byte, now time.Time) error {
	if err := s.deleteErased(ctx, id); err != nil {
		return err
	}
	v, err := s.listPieces(ctx, id)
	if err != nil {
		return err
	}
	last := time.Time{}
	for _, o := range v.top {
		if o.Name == erased {
			last = latest(last, o.Written)
		}
	}
	for _, p := range v.trims {
		last = latest(last, p.written)
	}
	switch {
	case len(v.data)+len(v.joined)+len(v.drops) > 0:
		if err := s.create(ctx, directory(id)+"meta", meta); err != nil {
			return err
		}
		return s.index(ctx, id, source)
	case now.Sub(last) < erasedAge:
		return s.unindex(ctx, id, source)
	}
	if err := s.RemoveObjects(ctx, id, now); err != nil {
		return err
	}
	return s.bucket.Delete(ctx, directory(id)+erased)
}
