// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// Joining makes one object of many, and any number of replicas may do it at once.
//
// Which object is the first to have a byte is settled some minutes after that
// object was written, and what is settled is all that is joined: so each joined
// object has the bytes that every reader sees, and where two overlap, they have the
// same. They count before other objects, so what comes late changes nothing.
//
// What is in a joined object is deleted when that is so old that everybody who
// lists the stream finds it. A joined object is deleted for one that has all of it
// and more, so of two never each because of the other. A crash leaves objects that
// are there twice, until the next time.

// A Tidied says what was found of a stream and what was done.
type Tidied struct {
	// Bytes is what it takes in the storage, overhead for its objects included.
	Bytes int64
	Last  time.Time // when something was written, by the storage's clock
	Ended bool
	// Expired is a stream that isn't kept any more. Nothing was done about it.
	Expired bool
	// Objects that were made by joining, and those that were deleted.
	Joined, Deleted int
}

const (
	// ObjectOverhead is what an object costs beside its content, in bytes.
	ObjectOverhead = 1 << 10
	// fewest is how many objects are worth joining, in a stream that goes on.
	fewest = 16
	// idle is how long nothing has come to a stream that probably doesn't go on.
	idle = time.Hour
)

// Tidy joins and deletes objects of a stream, unless nothing came to it for as long
// as it is kept, if that isn't 0. It is told the time by the storage's clock.
func (s *Store) Tidy(ctx context.Context, id string, now time.Time, keep time.Duration) (Tidied, error) {
	t := tidying{store: s, id: id, now: now, keep: keep}
	if err := t.run(ctx); err != nil {
		return t.Tidied, fmt.Errorf("tidying stream %q: %w", id, err)
	}
	return t.Tidied, nil
}

type tidying struct {
	Tidied
	store *Store
	id    string
	now   time.Time
	keep  time.Duration
	view
	claims []storage.Object
}

func (t *tidying) run(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	// What is joined looks younger than what it was made of.
	if t.Expired = t.keep > 0 && t.now.Sub(t.Last) > t.keep; t.Expired {
		return nil
	}
	for _, step := range []func(context.Context) error{t.deleteClaims, t.deleteData, t.deleteJoined, t.tidyDrops, t.joinData} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// look lists the stream, and counts.
func (t *tidying) look(ctx context.Context) (err error) {
	top, err := t.store.bucket.List(ctx, directory(t.id))
	if err != nil {
		return err
	}
	for _, o := range top {
		t.Ended = t.Ended || o.Name == "end"
		t.count(o.Size, o.Written)
	}
	if t.claims, err = t.store.bucket.List(ctx, directory(t.id)+"claim"); err != nil {
		return err
	}
	for _, o := range t.claims {
		t.count(o.Size, o.Written)
	}
	if t.view, err = t.store.look(ctx, t.id, nil); err != nil {
		return err
	}
	for _, pieces := range [][]piece{t.drops, t.data, t.joined} {
		for _, p := range pieces {
			t.count(p.size, p.written)
		}
	}
	return nil
}

func (t *tidying) count(size int64, written time.Time) {
	t.Bytes += size + ObjectOverhead
	if written.After(t.Last) {
		t.Last = written
	}
}

func (t *tidying) settled(p piece) bool { return p.joined || t.now.Sub(p.written) >= settled }

// reliable is a joined object that everybody finds.
func (t *tidying) reliable(p piece) bool {
	return t.now.Sub(p.written) >= joinedFor+settled // of which its piece has one
}

// delete removes an object. What a replica has deleted isn't there for the other.
func (t *tidying) delete(ctx context.Context, key string, size int64) error {
	if err := t.store.bucket.Delete(ctx, directory(t.id)+key); err != nil {
		return err
	}
	t.Deleted++
	t.Bytes -= size + ObjectOverhead
	return nil
}

// deleteClaims leaves the last of a chain, as long as there can be another one.
func (t *tidying) deleteClaims(ctx context.Context) error {
	for i, o := range t.claims {
		if last := i == len(t.claims)-1; last && !t.Ended || t.now.Sub(o.Written) < settled {
			continue
		}
		if err := t.delete(ctx, "claim/"+o.Name, o.Size); err != nil {
			return err
		}
	}
	return nil
}

// deleteData deletes what is joined, and of what others had written before.
func (t *tidying) deleteData(ctx context.Context) error {
	counts := map[Range]bool{}
	for _, p := range firstOf(t.data) {
		counts[p.object] = true
	}
	var kept Ranges
	for _, p := range t.joined {
		if t.reliable(p) {
			kept = kept.With(p.object)
		}
	}
	for _, p := range t.data {
		hidden := !counts[p.object] && t.settled(p)
		if !hidden && !kept.have(p.object) {
			continue
		}
		if err := t.delete(ctx, "data/"+span(p.object), p.size); err != nil {
			return err
		}
	}
	return nil
}

func (t *tidying) deleteJoined(ctx context.Context) error {
	for _, p := range superseded(t.joined, t.reliable) {
		if err := t.delete(ctx, "joined/"+span(p.object), p.size); err != nil {
			return err
		}
	}
	return nil
}

// tidyDrops makes one marker of those that overlap or touch, and deletes them when
// everybody finds that one.
func (t *tidying) tidyDrops(ctx context.Context) error {
	var whole Ranges
	old := map[Range][]piece{} // by the range of which they are a part
	var list []piece
	for _, p := range t.drops {
		if t.settled(p) {
			whole, list = whole.With(p.object), append(list, p)
		}
	}
	for _, p := range list {
		within := whole.holding(p.object.From)
		old[within] = append(old[within], p)
	}
	for _, r := range whole {
		if err := t.joinDrops(ctx, r, old[r]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tidying) joinDrops(ctx context.Context, r Range, drops []piece) error {
	for _, p := range drops {
		if p.object != r {
			continue
		}
		for _, part := range drops { // r was settled, which is as long as joinedFor
			if part.object != r {
				if err := t.delete(ctx, "drop/"+span(part.object), 0); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if len(drops) < t.worth() {
		return nil
	}
	t.Joined++
	t.Bytes += ObjectOverhead
	return t.store.create(ctx, directory(t.id)+"drop/"+span(r), nil)
}

// worth is how many objects are worth joining.
func (t *tidying) worth() int {
	if t.Ended || t.now.Sub(t.Last) > idle {
		return 2
	}
	return fewest
}

// joinData joins what is settled.
func (t *tidying) joinData(ctx context.Context) error {
	var runs [][]piece
	for _, p := range t.view.stored() {
		if !t.settled(p) || p.size == 0 || p.size > maxStored && !p.joined {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last][len(runs[last])-1].To == p.From {
			runs[last] = append(runs[last], p)
		} else {
			runs = append(runs, []piece{p})
		}
	}
	for _, run := range runs {
		for _, group := range groups(run, t.worth()) {
			err := t.join(ctx, group)
			if errors.Is(err, storage.ErrNotFound) {
				return nil // another replica is faster
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fullness is 3 for an object that is as large as it becomes, down to 0.
func fullness(p piece) int {
	share := max(float64(p.size)/maxStored, float64(p.Len())/MaxJoined)
	for i, least := range []float64{1. / 512, 1. / 32, 1. / 2} {
		if share < least {
			return i
		}
	}
	return 3
}

// groups are what is to be joined of pieces that touch. The smallest come first,
// so that a byte is written as often as there are sizes, not each time.
func groups(run []piece, worth int) (list [][]piece) {
	for size := range 3 {
		var group []piece
		var stored, length int64
		end := func(full bool) {
			if len(group) >= worth || full && len(group) > 1 {
				list = append(list, group)
			}
			group, stored, length = nil, 0, 0
		}
		for _, p := range run {
			if fullness(p) > size {
				end(false)
				continue
			}
			if stored+p.size > maxStored || length+p.Len() > MaxJoined {
				end(true)
			}
			group, stored, length = append(group, p), stored+p.size, length+p.Len()
		}
		if end(false); len(list) > 0 {
			return list
		}
	}
	return nil
}

// join writes one object that has what counts of others.
func (t *tidying) join(ctx context.Context, group []piece) error {
	name := Range{group[0].From, group[len(group)-1].To}
	whole := &joined{name: name}
	for _, p := range group {
		if err := t.add(ctx, whole, p); err != nil {
			return fmt.Errorf("joining bytes %d to %d: %w", name.From, name.To-1, err)
		}
	}
	object, err := whole.encode()
	if err != nil {
		return err
	}
	if err := t.store.create(ctx, directory(t.id)+"joined/"+span(name), object); err != nil {
		return err
	}
	t.Joined++
	t.Bytes += int64(len(object)) + ObjectOverhead
	return nil
}

func (t *tidying) add(ctx context.Context, whole *joined, p piece) error {
	if !p.joined {
		content, err := t.store.bucket.Read(ctx, directory(t.id)+"data/"+span(p.object))
		if err == nil && int64(len(content)) != p.size {
			err = fmt.Errorf("object %s has %d bytes, its listing says %d", span(p.object), len(content), p.size)
		}
		if err == nil {
			whole.add(member{counts: p.Range, object: p.object, content: content, written: p.written}, p.Range)
		}
		return err
	}
	from, err := t.store.joined(ctx, t.id, p.object)
	if err != nil {
		return err
	}
	for at := p.From; at < p.To; {
		m := from.holding(at)
		whole.add(m, p.Range)
		at = m.counts.To
	}
	return nil
}
