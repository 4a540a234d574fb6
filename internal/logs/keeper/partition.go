// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// The streams are in partitions, by the first digit of their IDs. ledgers/<digit>/<version> is
// the ledger of one, of which the last version counts. Any number of replicas may sweep the
// same partition: whoever saves a version later than another replica forgets its own, and
// reads the other's.
const ledgerDirectory = "ledgers/"

const (
	// partitions is how many there are.
	partitions = 16
	// fullEvery is how often all streams of a partition are listed, which finds what no journal
	// has. soonEvery is the time after a failure.
	fullEvery, soonEvery = 6 * time.Hour, time.Hour
	// saveEvery is how often a ledger is saved that has changed.
	saveEvery = time.Hour
	// maxHeldLedger bounds a ledger that stays in memory, in bytes: some 100,000 streams.
	// Larger ones are saved by each sweep that changes them.
	maxHeldLedger = 4 << 20
	// maxPending bounds the streams that pages name for a partition between two sweeps.
	maxPending = 100_000
)

// A partition is what a replica knows of one.
type partition struct {
	digit string

	loaded  bool
	version int64  // of the last ledger in the bucket, 0 for none
	ledger  []byte // nil if it is in the bucket only
	has     bool   // whether there is a ledger
	head    ledgerHead
	dirty   bool      // whether the ledger isn't saved
	saved   time.Time // as of when it is

	read    map[string]int64    // the last page of each replica that is in the ledger or in pending
	pending map[streamID]growth // what pages add to the ledger
	relist  bool                // whether all streams have to be listed

	// As of the last sweep:
	next      time.Time // when something is due
	limits    *Limits
	postponed int
	inDoubt   bool
	isTotal   atomic.Bool // whether this replica has added it up
}

func newPartition(number int) *partition {
	return &partition{digit: strconv.FormatInt(int64(number), partitions), read: map[string]int64{}, pending: map[streamID]growth{}}
}

// forget has another replica's ledger read.
func (p *partition) forget() {
	p.loaded, p.version, p.ledger, p.has, p.head, p.dirty, p.saved = false, 0, nil, false, ledgerHead{}, false, time.Time{}
	p.read, p.pending, p.relist, p.postponed = map[string]int64{}, map[streamID]growth{}, false, 0
	p.isTotal.Store(false)
}

func (p *partition) key(version int64) string {
	return fmt.Sprintf("%s%s/%08x", ledgerDirectory, p.digit, version)
}

// note adds a page.
func (p *partition) note(of listedPage, written map[streamID]growth, all bool) {
	if of.number <= p.read[of.replica] {
		return
	}
	p.read[of.replica] = of.number
	p.relist = p.relist || all
	for id, g := range written {
		if strings.HasPrefix(id.String(), p.digit) {
			p.pending[id] = p.pending[id].plus(g)
		}
	}
	if len(p.pending) > maxPending {
		clear(p.pending)
		p.relist = true
	}
}

// missedPages reports whether pages were deleted that the ledger doesn't have.
func (p *partition) missedPages(pages []listedPage) bool {
	for i, first := range pages {
		if (i == 0 || pages[i-1].replica != first.replica) && p.read[first.replica]+1 < first.number {
			return true
		}
	}
	return false
}

// isFull reports whether all streams have to be listed.
func (p *partition) isFull(now time.Time) bool {
	age := now.Sub(p.head.Listed)
	return p.relist || !p.has || age >= fullEvery || age < -fullEvery
}

// loadLedgers reads the ledgers of this replica's partitions, as far as it hasn't.
func (s *sweep) loadLedgers(ctx context.Context) error {
	if !slices.ContainsFunc(s.own(), func(p *partition) bool { return !p.loaded }) {
		return nil
	}
	versions := map[string][]int64{}
	err := s.bucket.Walk(ctx, ledgerDirectory, "", func(o storage.Object) bool {
		digit, text, _ := strings.Cut(o.Name, "/")
		if version, err := strconv.ParseInt(text, 16, 64); err == nil && version > 0 {
			versions[digit] = append(versions[digit], version)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("listing the ledgers: %w", err)
	}
	for _, p := range s.own() {
		if p.loaded {
			continue
		}
		if err := s.load(ctx, p, versions[p.digit]); err != nil {
			return err
		}
	}
	return nil
}

// load reads the last version of a ledger, and deletes those before it.
func (s *sweep) load(ctx context.Context, p *partition, versions []int64) error {
	if len(versions) == 0 {
		p.loaded = true
		return nil
	}
	last := slices.Max(versions)
	content, err := s.bucket.Read(ctx, p.key(last))
	if errors.Is(err, storage.ErrNotFound) {
		return nil // another replica has saved the next one; the next sweep reads it
	}
	if err != nil {
		return fmt.Errorf("reading a ledger: %w", err)
	}
	p.loaded, p.version = true, last
	var old []string
	for _, version := range versions {
		if version != last {
			old = append(old, p.key(version))
		}
	}
	if err := s.bucket.DeleteAll(ctx, old); err != nil {
		return fmt.Errorf("deleting former ledgers: %w", err)
	}
	r, err := readLedger(content)
	if err != nil {
		s.noteDamage(p, err)
		return nil
	}
	p.has, p.head, p.saved, p.read = true, r.head, r.head.Saved, maps.Clone(r.head.Read)
	if p.read == nil {
		p.read = map[string]int64{}
	}
	if age := s.now.Sub(r.head.Saved); age > pageAge*3/4 || age < -pageAge {
		p.relist = true // pages since then may be gone
	}
	p.keep(content)
	return nil
}

// keep keeps a ledger in memory unless it is too large.
func (p *partition) keep(content []byte) {
	if p.ledger = content; len(content) > maxHeldLedger && !p.dirty {
		p.ledger = nil
	}
}

// noteDamage has a damaged ledger made again.
func (s *sweep) noteDamage(p *partition, err error) {
	s.metrics.ledgerFailures.Inc()
	s.logger.Warn("A ledger of the streams can't be used, and is made again by listing them all", "partition", p.digit, "error", err)
	p.has, p.ledger, p.head = false, nil, ledgerHead{}
}

// content returns the ledger, nil without one.
func (s *sweep) content(ctx context.Context, p *partition) ([]byte, error) {
	if !p.has || p.ledger != nil {
		return p.ledger, nil
	}
	content, err := s.bucket.Read(ctx, p.key(p.version))
	if errors.Is(err, storage.ErrNotFound) {
		p.forget() // another replica has saved a later one
	}
	if err != nil {
		return nil, fmt.Errorf("reading a ledger: %w", err)
	}
	return content, nil
}

// save saves a ledger. A failure leaves it in memory.
func (s *sweep) save(ctx context.Context, p *partition) error {
	err := s.bucket.Create(ctx, p.key(p.version+1), p.ledger)
	if errors.Is(err, storage.ErrExists) {
		p.forget()
		return nil
	}
	if err != nil {
		return fmt.Errorf("saving a ledger: %w", err)
	}
	before := p.version
	p.version++
	p.dirty, p.saved = false, p.head.Saved
	p.keep(p.ledger)
	if before > 0 {
		if err := s.bucket.Delete(ctx, p.key(before)); err != nil {
			return fmt.Errorf("deleting a former ledger: %w", err)
		}
	}
	return nil
}

// sweepPartition inspects the streams of a partition, or those that are due.
func (s *sweep) sweepPartition(ctx context.Context, p *partition) error {
	full, isOld := p.isFull(s.now), s.now.Sub(p.saved).Abs() >= saveEvery
	if !full && !isOld && len(p.pending) == 0 && s.now.Before(p.next) && p.limits == s.limits && p.inDoubt == s.inDoubt {
		s.postponed.Add(int64(p.postponed))
		return nil
	}
	content, err := s.content(ctx, p)
	if err != nil {
		return err
	}
	err = (&pass{sweep: s, partition: p, full: full}).run(ctx, content)
	if errors.Is(err, errLedger) {
		s.noteDamage(p, err)
		err = (&pass{sweep: s, partition: p, full: true}).run(ctx, nil)
	}
	if p.dirty && (full || isOld || len(p.ledger) > maxHeldLedger) {
		err = errors.Join(err, s.save(ctx, p))
	}
	return err
}

// An item is what is known of a stream.
type item struct {
	id     streamID
	record record // with what was written since
	known  bool   // whether there is a record
	listed *streams.Inventory
	buried bool
	isGone bool
}

// A result is what becomes of an item, once it is done.
type result struct {
	item
	stays bool
	err   error
	done  chan struct{} // nil for one that is done
}

const (
	// maxWaiting bounds the results that wait for the one before them.
	maxWaiting = 4096
	// maxWorking bounds those of them that somebody works on, with the objects that a listing
	// has of their streams.
	maxWorking = 2 * streams.Sweepers
)

// A pass goes through the records of a partition, what pages say of its streams and, if it is
// full, a listing of all its objects, in the order of the IDs. Only some of each are in memory.
type pass struct {
	*sweep
	*partition
	full bool

	reader  *ledgerReader
	record  item
	hasNext bool
	ids     []streamID // of pending
	listing func() (*streams.Inventory, bool)
	next    *streams.Inventory
	buried  func() (string, bool)
	tomb    string
	scanErr error

	writer  *ledgerWriter
	queue   []*result
	working int
	slots   chan struct{}
	totals  amounts
	due     time.Time
	failed  int
	first   error
	unknown bool // whether a stream without a record has failed
	before  int64
}

func (p *pass) run(ctx context.Context, content []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer p.wait()
	defer cancel()
	p.before = p.sweep.postponed.Load()
	p.writer, p.totals, p.slots, p.due = newLedgerWriter(), amounts{}, make(chan struct{}, streams.Sweepers), p.now.Add(fullEvery)
	head := ledgerHead{Listed: p.head.Listed, Saved: p.now, Read: maps.Clone(p.read)}
	if p.full {
		head.Listed = p.now
	}
	if err := p.writer.begin(head); err != nil {
		return err
	}
	stop, err := p.open(ctx, content)
	defer stop()
	for err == nil {
		var it item
		if it, err = p.nextItem(); err != nil {
			break
		}
		err = p.start(ctx, it)
	}
	if errors.Is(err, io.EOF) {
		err = errors.Join(p.flush(0), p.scanErr, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("going through the streams of partition %s: %w", p.digit, err)
	}
	return p.end(head)
}

// end puts the new ledger in force.
func (p *pass) end(head ledgerHead) error {
	content, err := p.writer.end()
	if err != nil {
		return err
	}
	if p.unknown {
		head.Listed = p.now.Add(soonEvery - fullEvery)
	}
	isEmpty := p.writer.count == 0 && p.version == 0
	p.partition.has, p.partition.head, p.partition.dirty, p.partition.ledger = true, head, !isEmpty, content
	clear(p.pending)
	p.relist = false
	p.partition.next, p.partition.limits, p.partition.inDoubt = p.due, p.sweep.limits, p.sweep.inDoubt
	p.partition.postponed = int(p.sweep.postponed.Load() - p.before)
	number, _ := strconv.ParseInt(p.digit, partitions, 64)
	p.usage.setTotal(int(number), total{At: p.now, Read: maps.Clone(p.read), Namespaces: p.totals})
	p.isTotal.Store(true)
	if p.failed > 0 {
		return fmt.Errorf("%d streams failed, the first one: %w", p.failed, p.first)
	}
	return nil
}

// open begins to read what the pass goes through.
func (p *pass) open(ctx context.Context, content []byte) (stop func(), err error) {
	stop = func() {}
	p.ids = slices.SortedFunc(maps.Keys(p.pending), streamID.compare)
	if p.full {
		var stopListing, stopTombs func()
		p.listing, stopListing = iter.Pull(func(yield func(*streams.Inventory) bool) {
			p.scanErr = errors.Join(p.scanErr, p.store.EachInventory(ctx, p.digit, yield))
		})
		p.buried, stopTombs = iter.Pull(func(yield func(string) bool) {
			p.scanErr = errors.Join(p.scanErr, p.store.EachTombstone(ctx, p.digit, yield))
		})
		stop = func() { stopListing(); stopTombs() }
		p.nextListed()
		p.tomb, _ = p.buried()
	}
	if content == nil {
		return stop, nil
	}
	if p.reader, err = readLedger(content); err != nil {
		return stop, err
	}
	return stop, p.nextRecord()
}

func (p *pass) nextListed() {
	for {
		var more bool
		if p.next, more = p.listing(); !more {
			p.next = nil
			return
		}
		if _, ok := parseID(p.next.ID); ok {
			return
		}
	}
}

func (p *pass) nextRecord() error {
	id, r, err := p.reader.next()
	p.hasNext = err == nil
	p.record = item{id: id, record: r, known: true}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// nextItem returns the next stream of all, or io.EOF.
func (p *pass) nextItem() (it item, err error) {
	listed, found := p.firstID(&it.id)
	if !found {
		return it, io.EOF
	}
	if p.hasNext && p.record.id == it.id {
		it = p.record
		if err := p.nextRecord(); err != nil {
			return it, err
		}
	}
	if p.next != nil && listed == it.id {
		it.listed = p.next
		p.nextListed()
		for p.tomb != "" && p.tomb < it.id.String() {
			p.tomb, _ = p.buried()
		}
		it.buried = p.tomb == it.id.String()
	}
	if len(p.ids) > 0 && p.ids[0] == it.id {
		it.record, it.known = it.record.grown(it.known, p.pending[it.id], p.sweep)
		p.ids = p.ids[1:]
	} else if p.full && it.listed == nil {
		it.isGone = true
	}
	return it, nil
}

// firstID finds the first ID of all that come next, and the next one of the listing.
func (p *pass) firstID(first *streamID) (listed streamID, found bool) {
	if p.next != nil {
		listed, _ = parseID(p.next.ID)
	}
	for _, one := range []struct {
		has bool
		id  streamID
	}{{p.hasNext, p.record.id}, {len(p.ids) > 0, idAt(p.ids)}, {p.next != nil, listed}} {
		if one.has && (!found || one.id.compare(*first) < 0) {
			*first, found = one.id, true
		}
	}
	return listed, found
}

func idAt(ids []streamID) (id streamID) {
	if len(ids) > 0 {
		id = ids[0]
	}
	return id
}

// start decides what becomes of a stream, or has it inspected.
func (p *pass) start(ctx context.Context, it item) error {
	r := &result{item: it}
	if p.isDone(r) {
		p.queue = append(p.queue, r)
		return p.flush(maxWaiting)
	}
	r.done = make(chan struct{})
	p.queue = append(p.queue, r)
	p.working++
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		close(r.done)
		return ctx.Err()
	}
	go func() {
		defer func() { <-p.slots; close(r.done) }()
		p.inspect(ctx, r)
	}()
	return p.flush(maxWaiting)
}

// wait waits for what is still being worked on.
func (p *pass) wait() {
	for _, r := range p.queue {
		if r.done != nil {
			<-r.done
		}
	}
}

// flush writes the results that are done, in their order, and waits until at most some are
// left.
func (p *pass) flush(most int) error {
	for len(p.queue) > 0 {
		r := p.queue[0]
		if r.done != nil {
			if len(p.queue) > most || p.working > min(maxWorking, most) {
				<-r.done
			}
			select {
			case <-r.done:
				p.working--
			default:
				return nil
			}
		}
		p.queue = p.queue[1:]
		if err := p.write(r); err != nil {
			return err
		}
	}
	p.queue = nil
	return nil
}

// write adds a result to the ledger.
func (p *pass) write(r *result) error {
	if r.err != nil {
		p.failed++
		if p.first == nil {
			p.first = r.err
		}
		r.record.due = p.now
		r.stays = r.known
		p.unknown = p.unknown || !r.known
	}
	if !r.stays {
		return nil
	}
	p.totals.add(r.record.namespace, amount{r.record.bytes + r.record.index, 1})
	if r.record.due.Before(p.due) {
		p.due = r.record.due
	}
	if keep := p.sweep.limits.Of(r.record.namespace).Retention; keep > 0 && !r.record.held && r.record.last.Add(keep).Before(p.due) {
		p.due = r.record.last.Add(keep)
	}
	return p.writer.add(r.id, r.record)
}
