// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// Joining makes one object of many. Any number of replicas may join at the same time.
//
// An object is settled some minutes after it was written: by then, no earlier object with
// the same bytes can appear. Only settled objects are joined. So a joined object has the
// bytes that every reader sees, and where two of them overlap, they have the same bytes.
// Joined objects take precedence over others, so late objects change nothing.
//
// The parts of a joined object are deleted once the joined object is in everybody's
// listing. A joined object is deleted if a longer one has all of its bytes, so no two can
// be deleted because of each other. After a crash, some bytes are stored twice until the
// next Tidy.

// A TidyResult says what Tidy has found and done.
type TidyResult struct {
	// Bytes is the size of the stream in the storage, with ObjectOverhead for each object.
	Bytes int64
	// Content is the part of Bytes that Trim can free. Copies is another part: that of
	// objects which a joined object has replaced, and which are deleted soon.
	Content, Copies int64
	Last            time.Time // the last write, by the storage's clock
	// Recent counts the objects that aren't settled yet: those of the last minutes.
	Recent int
	Ended  bool
	// Expired says that the retention of the stream is over. Tidy has changed nothing then.
	// Held says that it would be over, but somebody holds the stream.
	Expired, Held bool
	// Trimmed is up to where the stream was trimmed, in bytes.
	Trimmed int64
	// The number of objects that were created by joining, and of those that were deleted.
	Joined, Deleted int
}

const (
	// ObjectOverhead is the cost of an object in addition to its content, in bytes.
	ObjectOverhead = 1 << 10
	// worthJoining is how many new objects of a stream are worth a listing while it grows. A
	// listing costs as much as a write.
	worthJoining = 120
	// maxGrowthPause bounds the time until then.
	maxGrowthPause = time.Hour
	// AtRest is after how long a stream is inspected that needs nothing. Listings of all streams
	// come sooner.
	AtRest = 24 * time.Hour
	// minGroup is how many objects are worth joining while a stream is being written.
	minGroup = 16
	// idleAfter is after how long without a write a stream counts as finished.
	idleAfter = time.Hour
)

// NextTidy returns how long after a Tidy the next one is worth its calls. See also
// IsWorthTidying.
func (d TidyResult) NextTidy(now time.Time, keep time.Duration) time.Duration {
	silence := now.Sub(d.Last)
	switch {
	case d.Recent > 0 && d.Ended:
		return settleTime - silence
	case d.Recent > 0:
		return min(settleTime*worthJoining/time.Duration(d.Recent), GrowthPause(keep))
	case d.Joined > 0 || d.Copies > 0:
		return 0 // the copies can be deleted soon
	case silence < idleAfter && !d.Ended:
		return idleAfter - silence
	default:
		return AtRest
	}
}

// GrowthPause returns how long a stream that grows may wait for a Tidy, by its retention: its
// old bytes are trimmed by then.
func GrowthPause(keep time.Duration) time.Duration {
	if keep > 0 {
		return min(maxGrowthPause, keep/trimSlack)
	}
	return maxGrowthPause
}

// IsWorthTidying reports whether so many objects were written since the last Tidy that the
// next one shouldn't wait.
func IsWorthTidying(written int) bool { return written >= worthJoining }

// Tidy joins and deletes objects of a stream, and trims it by age (trim.go), unless the
// last write is longer ago than its retention. A retention of 0 is unlimited. The time is
// that of the storage's clock.
func (s *Store) Tidy(ctx context.Context, id string, now time.Time, keep time.Duration) (TidyResult, error) {
	return (&tidier{store: s, id: id, now: now, keep: keep}).tidy(ctx)
}

// TidyInDoubt is Tidy while the clock is doubted: it doesn't trim.
func (s *Store) TidyInDoubt(ctx context.Context, id string, now time.Time, keep time.Duration) (TidyResult, error) {
	return (&tidier{store: s, id: id, now: now, keep: keep, inDoubt: true}).tidy(ctx)
}

func (t *tidier) tidy(ctx context.Context) (TidyResult, error) {
	if err := t.run(ctx); err != nil {
		return t.TidyResult, fmt.Errorf("tidying stream %q: %w", t.id, err)
	}
	return t.TidyResult, nil
}

type tidier struct {
	TidyResult
	store *Store
	id    string
	now   time.Time
	keep  time.Duration
	first time.Time // the first write, as far as its object exists

	inDoubt bool   // about the time
	sweep   *Sweep // nil outside of one
	view
}

func (t *tidier) run(ctx context.Context) error {
	if err := t.inspect(ctx); err != nil {
		return err
	}
	if t.sweep != nil && !t.has("meta") {
		return ErrNoStream
	}
	return t.work(ctx)
}

// work does what the objects of the stream need.
func (t *tidier) work(ctx context.Context) error {
	// A joined object is younger than its content, so a stream may expire later.
	if t.keep > 0 && t.now.Sub(t.Last) > t.keep {
		isHeld, err := t.isHeld(ctx)
		if t.Held, t.Expired = isHeld, !isHeld; err != nil || t.Expired {
			return err
		}
		t.keep = 0
	}
	for _, step := range []func(context.Context) error{t.trimByAge, t.deleteTrimmed, t.deleteClaims, t.deleteData, t.deleteJoined, t.tidyDrops, t.maskRedacted, t.joinData} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isHeld reports whether the stream is held. In a sweep, a listing of the holds may be some
// seconds old, because what expires can be restored.
func (t *tidier) isHeld(ctx context.Context) (bool, error) {
	if t.sweep == nil {
		return t.store.isHeld(ctx, t.id)
	}
	source, err := t.store.Source(ctx, t.id)
	if err != nil {
		return false, err
	}
	holds, err := t.sweep.holds.of(ctx, t.store, source.Namespace)
	return holds.Has(source), err
}

// inspect lists and counts the objects of the stream.
func (t *tidier) inspect(ctx context.Context) (err error) {
	if t.view, err = t.store.listPieces(ctx, t.id); err != nil {
		return err
	}
	t.countAll()
	return nil
}

// countAll counts the objects of the stream.
func (t *tidier) countAll() {
	for _, o := range t.top {
		t.Ended = t.Ended || o.Name == "end"
		t.count(o.Size, o.Written)
	}
	for _, o := range t.claims {
		t.count(o.Size, o.Written)
	}
	for _, pieces := range [][]piece{t.drops, t.data, t.joined} {
		for _, p := range pieces {
			t.count(p.size, p.written)
		}
	}
	copies := t.copies()
	for _, pieces := range [][]piece{t.drops, t.data} {
		for _, p := range pieces {
			if !t.isSettled(p) {
				t.Recent++
			}
		}
	}
	for _, pieces := range [][]piece{t.drops, t.data, t.joined} {
		for _, p := range pieces {
			if copies[p] {
				t.Copies += p.size + ObjectOverhead
			} else {
				t.Content += p.size + ObjectOverhead
			}
		}
	}
	for _, p := range slices.Concat(t.redacts, t.trims) {
		t.Bytes += p.size + ObjectOverhead // neither is a write
	}
	t.Trimmed = t.trimmed()
}

// copies has the objects that a joined object has replaced.
func (t *tidier) copies() map[piece]bool {
	copies := map[piece]bool{}
	for _, p := range supersededObjects(slices.Concat(t.joined, t.data), func(p piece) bool { return p.joined }) {
		copies[p] = true
	}
	return copies
}

func (t *tidier) count(size int64, written time.Time) {
	t.Bytes += size + ObjectOverhead
	if written.After(t.Last) {
		t.Last = written
	}
	if t.first.IsZero() || written.Before(t.first) {
		t.first = written
	}
}

func (t *tidier) isSettled(p piece) bool { return p.joined || t.now.Sub(p.written) >= settleTime }

// isVisibleToAll reports whether every listing under way has a joined object.
func (t *tidier) isVisibleToAll(p piece) bool {
	return t.now.Sub(p.createdAt()) >= joinedDelay
}

// A doomed is an object that is to be deleted.
type doomed struct {
	key  string // in the stream's directory
	size int64
}

// delete deletes objects, which another replica may have deleted already.
func (t *tidier) delete(ctx context.Context, list []doomed) error {
	var keys []string
	for _, o := range list {
		keys = append(keys, directory(t.id)+o.key)
	}
	if err := t.store.deleteAll(ctx, keys); err != nil {
		return err
	}
	t.Deleted += len(list)
	for _, o := range list {
		t.Bytes -= o.size + ObjectOverhead
	}
	return nil
}

// deleteClaims deletes settled claims. The last one stays until the stream has ended,
// because the next claim follows it.
func (t *tidier) deleteClaims(ctx context.Context) error {
	var old []doomed
	for i, o := range t.claims {
		if last := i == len(t.claims)-1; last && !t.Ended || t.now.Sub(o.Written) < settleTime {
			continue
		}
		old = append(old, doomed{"claim/" + o.Name, o.Size})
	}
	return t.delete(ctx, old)
}

// deleteData deletes objects that are in a joined object, and those of which readers see
// nothing: each byte was written earlier by others, or is in a joined object, or trimmed.
func (t *tidier) deleteData(ctx context.Context) error {
	var kept Ranges
	for _, p := range t.joined {
		if t.isVisibleToAll(p) {
			kept = kept.With(p.object)
		}
	}
	seen := map[string]bool{}
	for _, p := range resolveOverlaps(t.data) {
		seen[p.name()] = seen[p.name()] || p.To > t.Trimmed && !kept.contain(p.Range)
	}
	var old []doomed
	for _, p := range t.data {
		if kept.contain(p.object) || !seen[p.name()] && t.isSettled(p) {
			old = append(old, doomed{p.key(), p.size})
		}
	}
	return t.delete(ctx, old)
}

func (t *tidier) deleteJoined(ctx context.Context) error {
	var old []doomed
	for _, p := range supersededObjects(t.joined, t.isVisibleToAll) {
		old = append(old, doomed{p.key(), p.size})
	}
	return t.delete(ctx, old)
}

// tidyDrops joins settled markers to longer ones, and deletes markers that a longer one
// contains, once everybody sees that one. A longer marker spans stored bytes as well,
// because these win over markers. So the number of markers stays bounded while bytes are
// being dropped, also if they are dropped in turns with stored ones.
func (t *tidier) tidyDrops(ctx context.Context) error {
	superseded, old := map[Range]bool{}, []doomed(nil)
	for _, p := range supersededObjects(t.drops, t.isSettled) { // settleTime isn't shorter than joinedDelay
		superseded[p.object] = true
		old = append(old, doomed{"drop/" + rangeName(p.object), 0})
	}
	if err := t.delete(ctx, old); err != nil {
		return err
	}
	for _, p := range supersededObjects(t.drops, func(piece) bool { return true }) {
		superseded[p.object] = true // an object isn't written again because a former one isn't settled yet
	}
	markers := slices.DeleteFunc(slices.Clone(t.drops), func(p piece) bool { return superseded[p.object] || !t.isSettled(p) })
	slices.SortFunc(markers, func(a, b piece) int { return cmp.Compare(a.object.From, b.object.From) })
	for _, known := range union(slices.Concat(t.drops, t.data, t.joined)) {
		var group []piece
		for len(markers) > 0 && markers[0].object.From < known.To {
			group, markers = append(group, markers[0]), markers[1:]
		}
		if len(group) < t.minGroupSize() {
			continue
		}
		// None contains another, so the last one ends last.
		if err := t.store.create(ctx, directory(t.id)+"drop/"+rangeName(Range{group[0].object.From, group[len(group)-1].object.To}), nil); err != nil {
			return err
		}
		t.Joined++
		t.Bytes += ObjectOverhead
	}
	return nil
}

// minGroupSize returns how many objects are worth joining.
func (t *tidier) minGroupSize() int {
	if t.Ended || t.now.Sub(t.Last) > idleAfter {
		return 2
	}
	return minGroup
}

// joinData joins settled objects.
func (t *tidier) joinData(ctx context.Context) error {
	var runs [][]piece
	for _, p := range t.view.stored() {
		if !t.isSettled(p) || p.size == 0 || p.size > maxStored && !p.joined || p.object.From < t.Trimmed { // what is partly trimmed isn't kept longer by a longer object
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last][len(runs[last])-1].To == p.From {
			runs[last] = append(runs[last], p)
		} else {
			runs = append(runs, []piece{p})
		}
	}
	for _, run := range runs {
		for _, group := range joinGroups(run, t.minGroupSize()) {
			err := t.joinGroup(ctx, group)
			if errors.Is(err, storage.ErrNotFound) {
				return nil // another replica was faster
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeClass returns the size of an object as a class from 0 to 3, which is full.
func sizeClass(p piece) int {
	share := max(float64(p.size)/maxStored, float64(p.Len())/MaxJoined)
	for i, least := range []float64{1. / 512, 1. / 32, 1. / 2} {
		if share < least {
			return i
		}
	}
	return 3
}

// joinGroups returns the groups to join among pieces that touch. The smallest pieces come
// first, so that a byte is rewritten only once for each size class.
func joinGroups(run []piece, minSize int) (list [][]piece) {
	for size := range 3 {
		var group []piece
		var stored, length int64
		end := func(full bool) {
			if len(group) >= minSize || full && len(group) > 1 {
				list = append(list, group)
			}
			group, stored, length = nil, 0, 0
		}
		for _, p := range run {
			if sizeClass(p) > size {
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

// joinGroup writes one object with the bytes of a group that readers see.
func (t *tidier) joinGroup(ctx context.Context, group []piece) error {
	object := t.joinedName(group)
	name := object.object
	whole := &joinedObject{name: name}
	for _, p := range group {
		if err := t.addPiece(ctx, whole, p); err != nil {
			return fmt.Errorf("joining bytes %d to %d: %w", name.From, name.To-1, err)
		}
	}
	content, err := whole.encode()
	if err != nil {
		return err
	}
	if err := t.store.create(ctx, directory(t.id)+object.key(), content); err != nil {
		return err
	}
	t.Joined++
	t.Bytes += int64(len(content)) + ObjectOverhead
	return nil
}

func (t *tidier) addPiece(ctx context.Context, whole *joinedObject, p piece) error {
	if !p.joined {
		content, err := t.store.bucket.Read(ctx, directory(t.id)+p.key())
		if err == nil && int64(len(content)) != p.size {
			err = fmt.Errorf("object %s has %d bytes, but %d in its listing", p.name(), len(content), p.size)
		}
		if err == nil {
			whole.add(member{counts: p.Range, object: p.object, content: content, written: p.written}, p.Range)
		}
		return err
	}
	from, err := t.store.readJoined(ctx, t.id, p)
	if err != nil {
		return err
	}
	for at := p.From; at < p.To; {
		m := from.memberAt(at)
		whole.add(m, p.Range)
		at = m.counts.To
	}
	return nil
}
