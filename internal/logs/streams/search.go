// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

const (
	// openAhead bounds the streams that a search lists ahead of what is read.
	openAhead = 16
	// fetchAhead bounds the objects that it reads ahead, and fetchMemory their memory in bytes:
	// fetchSizes is by how much an object counts more than its size, and fetchEach what each
	// counts in addition.
	fetchAhead, fetchMemory, fetchSizes, fetchEach = 64, 4 << 20, 2, 4 << 10
	// unpackAhead bounds the batches that it unpacks ahead.
	unpackAhead = 4
	// SearchMemory is what a search takes beside what it lists, in bytes: objects, batches, and
	// what the caller finds lines with.
	SearchMemory = fetchMemory + (unpackAhead+2)*batchSize + 3<<20
	// perSearched is the memory of a stream that is to be searched, in bytes.
	perSearched = 64
	// busyFor is how long a search waits for memory until it leaves out a stream.
	busyFor, busyPause = 10 * time.Second, 100 * time.Millisecond
	// skewTolerance is by how much the clocks of nodes and of the storage may differ.
	skewTolerance = time.Hour
)

// A SearchQuery selects what is searched of a namespace.
type SearchQuery struct {
	Namespace string
	// Pod is the name of the only pod, "" for all.
	Pod string
	// Selector selects by the labels of package loglabels, of which it has to require one. Nil
	// selects all.
	Selector labels.Selector
	// Keep selects streams.
	Keep func(Listed) bool
	Span Span
	// NotBefore leaves out all streams that were created earlier.
	NotBefore time.Time
}

// A Searcher takes what is read: of one stream after another, the ones that were created last
// first, and of each in order. Its errors end the search.
type Searcher interface {
	// Part takes a part, whose data is valid until it returns.
	Part(of *Listed, p Part) error
	// Unread takes the error with which bytes of a stream couldn't be read.
	Unread(of *Listed, err error) error
	// End says that everything else of a stream was passed.
	End(of *Listed) error
}

// Search reads the streams of a query, as they are now, some of their objects at the same
// time. more says that the namespace has more streams than are searched. It holds SearchMemory
// until the hold of the store is released.
func (s *Store) Search(ctx context.Context, q SearchQuery, to Searcher) (more bool, err error) {
	if err := s.hold.take(SearchMemory); err != nil {
		return false, err
	}
	entries, more, err := s.searchedStreams(ctx, q)
	if ended := context.Cause(ctx); ended != nil {
		return more, ended
	}
	if err != nil {
		return more, fmt.Errorf("looking for the streams of namespace %q: %w", q.Namespace, err)
	}
	ctx, stop := context.WithCancel(ctx)
	r := &search{Store: s, query: q, ctx: ctx, memory: semaphore.NewWeighted(fetchMemory)}
	defer r.running.Wait()
	defer stop()
	opened := make(chan *coming[*openStream], openAhead)
	fetched := make(chan *coming[*fetchedObject], fetchAhead)
	batches := make(chan *coming[*batch], unpackAhead)
	r.running.Go(func() { r.open(entries, opened) })
	r.running.Go(func() { r.fetch(opened, fetched) })
	r.running.Go(func() { r.unpack(fetched, batches) })
	err = r.pass(batches, to)
	return more, cmp.Or(err, context.Cause(ctx))
}

// A searchEntry is a stream of the index.
type searchEntry struct {
	id      string
	created time.Time
}

// searchedStreams returns the streams that the index has for a query, the newest first.
func (s *Store) searchedStreams(ctx context.Context, q SearchQuery) (entries []searchEntry, more bool, err error) {
	var errAdd error
	add := func(o storage.Object) bool {
		if more = len(entries) == maxListedObjects; more {
			return false
		}
		if errAdd = s.hold.take(perSearched + idLength); errAdd == nil && !o.Written.Before(q.NotBefore) {
			entries = append(entries, searchEntry{path.Base(o.Name), o.Written})
		}
		return errAdd == nil
	}
	switch {
	case q.Selector != nil:
		key, value := loglabels.Required(q.Selector)
		var directory string
		if directory, err = labelDirectory(q.Namespace, key, value); err == nil {
			err = s.bucket.Each(ctx, directory, add)
		}
	case q.Pod != "":
		var directory string
		if directory, err = podDirectory(q.Namespace, q.Pod); err == nil {
			err = s.bucket.Each(ctx, directory, add)
		}
	default:
		if err = CheckNamespace(q.Namespace); err == nil {
			err = s.bucket.Walk(ctx, "pods/"+q.Namespace, "", add)
		}
	}
	slices.SortFunc(entries, func(a, b searchEntry) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.id, b.id))
	})
	return entries, more, cmp.Or(errAdd, err)
}

// A search is a Search that runs. Its stages pass on what comes in order.
type search struct {
	*Store
	query   SearchQuery
	ctx     context.Context //nolint:containedctx // ends all stages
	memory  *semaphore.Weighted
	running sync.WaitGroup
}

// A coming value is made while others wait for their turn.
type coming[T any] struct {
	made  chan struct{}
	value T
}

// begin makes a value aside.
func begin[T any](running *sync.WaitGroup, get func() T) *coming[T] {
	c := &coming[T]{made: make(chan struct{})}
	running.Go(func() {
		c.value = get()
		close(c.made)
	})
	return c
}

// isMade is a value that others needn't wait for.
func isMade[T any](value T) *coming[T] {
	c := &coming[T]{made: make(chan struct{}), value: value}
	close(c.made)
	return c
}

// wait returns the value once it is made. Makers end with the search, so this does.
func (c *coming[T]) wait() T {
	<-c.made
	return c.value
}

// put passes on a value, and reports whether the search goes on.
func put[T any](ctx context.Context, to chan<- T, value T) bool {
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}

// An openStream is a stream that is searched.
type openStream struct {
	Listed
	layout *sharedLayout // nil with an error
	end    int64         // the offset behind the last known byte
	err    error
	skip   bool // it isn't selected, or was just deleted
}

// open lists the streams of a search.
func (r *search) open(entries []searchEntry, to chan<- *coming[*openStream]) {
	defer close(to)
	for _, entry := range entries {
		next := begin(&r.running, func() *openStream { return r.openOne(entry) })
		if !put(r.ctx, to, next) {
			next.wait().release()
			return
		}
	}
}

func (o *openStream) release() {
	if o.layout != nil {
		o.layout.release()
		o.layout = nil
	}
}

func (r *search) openOne(entry searchEntry) *openStream {
	o := &openStream{Listed: Listed{ID: entry.id, Created: entry.created}}
	if o.Source, o.err = r.Source(r.ctx, entry.id); o.err != nil {
		o.skip = errors.Is(o.err, ErrNoStream)
		return o
	}
	q := r.query
	isOther := q.Pod != "" && o.Pod != q.Pod || q.Selector != nil && !q.Selector.Matches(labels.Set(o.Labels))
	if o.skip = isOther || !q.Keep(o.Listed); o.skip {
		return o
	}
	o.err = r.whileBusy(func() (err error) {
		o.layout, err = r.layoutSince(r.ctx, entry.id, wholeStream, time.Now())
		return err
	})
	if o.err == nil && len(o.layout.known) > 0 {
		o.end = o.layout.known[len(o.layout.known)-1].To
	}
	return o
}

// whileBusy repeats what needs memory while there is none, for some time.
func (r *search) whileBusy(do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if !errors.Is(err, ErrBusy) || time.Since(began) > busyFor {
			return err
		}
		select {
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-time.After(busyPause):
		}
	}
}

// A fetchedObject is an object with a piece of a stream.
type fetchedObject struct {
	of       *openStream
	from     int64    // the offset of the piece
	gap      *Part    // the part, if it has no bytes
	members  []member // the members with the bytes of the piece
	within   Range    // of the piece
	redacted Ranges
	written  time.Time // of members without times
	err      error
	isEnd    bool // nothing of the stream comes behind this
	release  func()
}

// fetch reads the objects of the streams.
func (r *search) fetch(from <-chan *coming[*openStream], to chan<- *coming[*fetchedObject]) {
	defer close(to)
	goesOn := true
	for next := range from {
		o := next.wait()
		if goesOn && !o.skip {
			goesOn = r.fetchStream(o, to)
		}
		o.release()
	}
}

// fetchStream reads the objects of a stream, and reports whether the search goes on.
func (r *search) fetchStream(o *openStream, to chan<- *coming[*fetchedObject]) bool {
	is := func(f fetchedObject) bool {
		f.of, f.release = o, func() {}
		return put(r.ctx, to, isMade(&f))
	}
	if o.err != nil {
		return is(fetchedObject{err: o.err, isEnd: true})
	}
	at, known := int64(0), o.layout.known
	for i, p := range known {
		for _, gap := range r.gapsUpTo(at, known[i:]) {
			if !is(fetchedObject{gap: &gap}) {
				return false
			}
		}
		if p.hasData() && r.query.Span.mayHave(p.written) && !r.fetchPiece(o, p, to) {
			return false
		}
		at = p.To
	}
	if gap := (Range{at, o.layout.total}); o.layout.complete && gap.Len() > 0 && !is(fetchedObject{gap: &Part{Range: gap}}) {
		return false
	}
	return is(fetchedObject{isEnd: true})
}

// gapsUpTo returns the gaps that count between an offset and the end of the first of some
// pieces.
func (r *search) gapsUpTo(at int64, pieces []piece) (gaps []Part) {
	p := pieces[0]
	if at < p.From && r.counts(pieces) {
		gaps = append(gaps, Part{Range: Range{at, p.From}})
	}
	if !p.hasData() && r.counts(pieces[1:]) {
		gaps = append(gaps, Part{Range: p.Range, Dropped: p.dropped, Deleted: p.deleted})
	}
	return gaps
}

// counts reports whether bytes that are no more in front of some pieces may be of the span.
func (r *search) counts(pieces []piece) bool {
	for _, p := range pieces {
		if p.hasData() {
			return r.query.Span.mayHave(p.written)
		}
	}
	return true
}

// fetchPiece reads the object of a piece aside, once there is memory for it.
func (r *search) fetchPiece(o *openStream, p piece, to chan<- *coming[*fetchedObject]) bool {
	memory := min(fetchSizes*p.size+fetchEach, fetchMemory)
	if r.memory.Acquire(r.ctx, memory) != nil {
		return false
	}
	release := sync.OnceFunc(func() { r.memory.Release(memory) })
	redacted := o.layout.redacted
	return put(r.ctx, to, begin(&r.running, func() *fetchedObject {
		f := &fetchedObject{of: o, from: p.From, within: p.Range, redacted: redacted, written: p.written, release: release}
		if !p.joined {
			var content []byte
			content, f.err = r.bucket.Read(r.ctx, directory(o.ID)+p.key())
			f.members = []member{{counts: p.Range, object: p.object, content: content, written: p.written}}
			return f
		}
		var j *joinedObject
		if j, f.err = r.readJoined(r.ctx, o.ID, p); f.err != nil {
			return f
		}
		for at := p.From; at < p.To; {
			m := j.memberAt(at)
			f.members = append(f.members, m)
			at = m.counts.To
		}
		return f
	}))
}

// A batch is what is passed on at a time.
type batch struct {
	of    *openStream
	from  int64
	parts []Part
	err   error
	isEnd bool
	packs *unpacker // that has the data, nil without any
}

// unpack unpacks the members of objects.
func (r *search) unpack(from <-chan *coming[*fetchedObject], to chan<- *coming[*batch]) {
	defer close(to)
	goesOn := true
	for next := range from {
		f := next.wait()
		if !goesOn {
			f.release()
			continue
		}
		if f.gap != nil || f.err != nil || f.isEnd {
			f.release()
			b := &batch{of: f.of, from: f.from, err: f.err, isEnd: f.isEnd}
			if f.gap != nil {
				b.parts = []Part{*f.gap}
			}
			goesOn = put(r.ctx, to, isMade(b))
			continue
		}
		goesOn = r.unpackObject(f, to)
	}
}

// unpackObject unpacks the members of an object, several at a time.
func (r *search) unpackObject(f *fetchedObject, to chan<- *coming[*batch]) bool {
	left := f.members
	for len(left) > 0 {
		count, size := 0, int64(0)
		for count < len(left) && (count == 0 || size+left[count].object.Len() <= batchSize) {
			size += left[count].object.Len()
			count++
		}
		members := left[:count]
		left = left[count:]
		isLast := len(left) == 0
		if !put(r.ctx, to, begin(&r.running, func() *batch {
			if isLast { // the batches before have their bytes, or get them from the same object
				defer f.release()
			}
			return r.unpackBatch(f, members)
		})) {
			f.release()
			return false
		}
	}
	return true
}

func (r *search) unpackBatch(f *fetchedObject, members []member) *batch {
	b := &batch{of: f.of, from: max(f.from, members[0].counts.From)}
	select {
	case r.searching <- struct{}{}:
	case <-r.ctx.Done():
		b.err = context.Cause(r.ctx)
		return b
	}
	defer func() { <-r.searching }()
	b.packs = unpackers.Get().(*unpacker)
	b.parts, b.err = b.packs.unpack(members, f.within)
	for _, p := range b.parts {
		f.redacted.mask(p.From, p.Data)
	}
	return b
}

// pass passes on the batches.
func (r *search) pass(from <-chan *coming[*batch], to Searcher) error {
	var again *openStream // was read to its end in another way
	for {
		var b *batch
		select {
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case next, open := <-from:
			if !open {
				return nil
			}
			b = next.wait()
		}
		err := error(nil)
		if b.of != again {
			if errors.Is(b.err, storage.ErrNotFound) { // the object was just joined, or deleted
				again = b.of
				b.err = r.readOn(b.of, b.from, to)
			}
			err = r.passOn(b, to)
		}
		if b.packs != nil {
			unpackers.Put(b.packs)
		}
		if err == nil && b.isEnd {
			err = to.End(&b.of.Listed)
		}
		if err != nil {
			return err
		}
	}
}

// passOn passes on what a batch has.
func (r *search) passOn(b *batch, to Searcher) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	for _, p := range b.parts {
		if err := to.Part(&b.of.Listed, p); err != nil {
			return err
		}
	}
	if taken, is := errors.AsType[*searcherError](b.err); is {
		return taken.error
	}
	if b.err != nil {
		return to.Unread(&b.of.Listed, b.err)
	}
	return nil
}

// A searcherError is an error of a Searcher.
type searcherError struct{ error }

// errUnread says that a stream has bytes that a search didn't come to.
var errUnread = errors.New("bytes of the stream are behind others that are still to come")

// readOn passes on a stream from an offset on as readers read it, which find an object also
// after it was joined.
func (r *search) readOn(o *openStream, from int64, to Searcher) error {
	store, release := r.WithMemoryHold(r.query.Namespace)
	defer release()
	reader := store.Reader(o.ID, from)
	defer reader.Close()
	for {
		var p Part
		err := r.whileBusy(func() (err error) {
			p, err = reader.Next(r.ctx)
			return err
		})
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrNotYet) && reader.at >= o.end:
			return nil
		case errors.Is(err, ErrNotYet):
			return errUnread
		case err != nil:
			return err
		}
		if err := to.Part(&o.Listed, p); err != nil {
			return &searcherError{err}
		}
	}
}
