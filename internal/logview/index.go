// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pieceSize is how much of a line is one record, in bytes.
	pieceSize = 4 << 10
	// blockRecords and blockSize bound a block, in records and in bytes.
	blockRecords, blockSize = 256, 128 << 10
	// mostStreams bounds the streams of a log, and mostFolds its folds.
	mostStreams, mostFolds = 4096, 20_000
	// mostNotes bounds the remarks about a log.
	mostNotes = 20
	// neverShown is the number of a fold that is never open.
	neverShown = 1
)

// errFull says that a log has reached a bound. What was indexed is shown.
var errFull = errors.New("the bound of the page is reached")

// A block is a run of records: in the spool, or in memory for the last one.
type block struct {
	at      int64 // where it begins in the spool
	size    int
	first   int // the number of its first record
	records int
	// counts say how many of its records are of which stream and fold.
	counts   []count
	allPlain bool
	pieces   bool // it has records that aren't whole lines
}

type count struct {
	stream, fold, records int
	offset                int64 // of the first of them in the stream
}

// A fold is a group of lines (::group::), or the pieces of a long line but the first.
type fold struct {
	parent   int // the fold around it, 0 for none
	head     int // the record that is shown in its place
	records  int
	bytes    int64
	longLine bool
}

// A stream is what an index knows of one.
type stream struct {
	Stream

	run     *run
	label   string
	lines   int64
	at      int64 // where the last line, or piece of one, begins
	style   style // behind the last record
	unended bool  // the last line has no newline so far
}

// A run is one start of a container: its streams share folds.
type run struct{ fold int }

// An index has the lines of a log, which may grow, and finds them by their numbers.
type index struct {
	epoch int64 // tells it from a later index of the same log
	room  *room
	share *share

	mu      sync.RWMutex
	changed chan struct{} // closed at the next change; nil if nobody waits for it
	version int64
	spool   *os.File
	linked  bool // the spool has a name
	written int64
	charged int64 // what counts for the bounds
	blocks  []block
	last    block // not in the spool yet
	open    []byte
	// tail is where the last record begins in open, -1 if it can't grow.
	tail    int
	records int
	bytes   int64
	streams []*stream
	byID    map[string]int
	runs    map[[4]string]*run
	folds   []fold
	heads   map[int]int // folds by their heads
	notes   []string
	live    bool
	done    bool
	full    bool
	err     error
	failed  atomic.Bool // there is an error
}

// memoryWeight is how many bytes of the disk a byte of memory counts for. blockMemory and
// countMemory are what is in memory of a block and of each of its counts, in bytes.
const memoryWeight, blockMemory, countMemory = 16, 80, 32

// room is what all indexes may take of the disk together, in bytes. What blocks take of the
// memory counts, too.
type room struct {
	// perOwner bounds a share. There is no such bound if it is 0.
	perLog, perOwner, total int64
	taken                   atomic.Int64
}

// A share is what the indexes of one owner take of the room, in bytes.
type share struct {
	taken atomic.Int64
	logs  int // that are open, or being closed
}

// isLess reports whether there is no room for a further log of an owner that is as large as one may
// be.
func (r *room) isLess(of *share) bool {
	return r.perOwner > 0 && of.taken.Load() > r.perOwner-r.perLog
}

// fits reports whether an index that has taken some of the room may take so much more.
func (r *room) fits(index int64, of *share, more int64) bool {
	return index+more <= r.perLog && r.taken.Load()+more <= r.total && (r.perOwner == 0 || of.taken.Load()+more <= r.perOwner)
}

// newSpool creates a file without a name, if the system allows that.
func newSpool(dir string) (spool *os.File, linked bool, err error) {
	spool, err = os.CreateTemp(dir, "entrypointer-log-*")
	if err != nil {
		return nil, false, fmt.Errorf("creating a file for a log: %w", err)
	}
	return spool, os.Remove(spool.Name()) != nil, nil // Windows keeps files that are open
}

// CheckDirectory returns an error if no files for logs can be created in a directory, "" for
// os.TempDir, so that this isn't found out by the first reader.
func CheckDirectory(dir string) error {
	spool, linked, err := newSpool(dir)
	if err != nil {
		return err
	}
	err = spool.Close()
	if linked {
		err = errors.Join(err, os.Remove(spool.Name()))
	}
	return err
}

func newIndex(dir string, r *room, of *share) (*index, error) {
	spool, linked, err := newSpool(dir)
	if err != nil {
		return nil, err
	}
	return &index{
		linked: linked,
		epoch:  rand.Int64N(1 << 53), room: r, share: of, //nolint:gosec // G404: not a secret
		spool: spool, tail: -1,
		last: block{allPlain: true}, byID: map[string]int{}, runs: map[[4]string]*run{},
		folds: make([]fold, neverShown+1), heads: map[int]int{},
	}, nil
}

// fill reads a source to its end.
func (x *index) fill(ctx context.Context, source Source) {
	err := source(ctx, &Recorder{x})
	x.mu.Lock()
	defer x.mu.Unlock()
	if errors.Is(err, errFull) {
		x.full, err = true, nil
	}
	x.done, x.err = true, err
	x.failed.Store(err != nil)
	x.notify()
}

// close frees the spool. Nobody may use the index any more.
func (x *index) close() error {
	x.room.taken.Add(-x.charged)
	x.share.taken.Add(-x.charged)
	err := x.spool.Close()
	if x.linked {
		err = errors.Join(err, os.Remove(x.spool.Name()))
	}
	return err
}

// notify wakes those who wait for a change. The index must be locked.
func (x *index) notify() {
	x.version++
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// wait waits until the index has changed since a version, for a limited time.
func (x *index) wait(ctx context.Context, since int64, most time.Duration) {
	x.mu.Lock()
	if x.version != since || x.done {
		x.mu.Unlock()
		return
	}
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	changed := x.changed
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// A Recorder adds lines to the index of a log. One goroutine at a time may use each method.
type Recorder struct{ index *index }

// Note adds a remark, which the page shows above the lines, unless it is there already. Beyond
// 20, one says that there are more.
func (r *Recorder) Note(text string) {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.notes) > mostNotes || slices.Contains(x.notes, text) {
		return
	}
	if len(x.notes) == mostNotes {
		text = "There are more remarks, which are left out."
	}
	x.notes = append(x.notes, text)
	x.notify()
}

// Live says that all is added that was there, and that what follows is new.
func (r *Recorder) Live() {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live = true
	x.notify()
}

// Add adds a line, or a piece of one. An error says that no more is taken: return it.
func (r *Recorder) Add(l Line) error {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	at, err := x.stream(l.Stream)
	if err != nil {
		return err
	}
	s := x.streams[at]
	x.bytes += int64(len(l.Text))
	s.at = l.Offset
	rec := record{stream: at, fold: s.run.fold, offset: l.Offset, time: max(l.Time, 0), style: s.style, text: l.Text}
	switch {
	case l.Gap: // which may have had the end of the fold
		s.run.fold, s.unended = 0, false
		rec.flags, rec.fold, rec.style = isGap, 0, style{}
		rec.number = s.lines
		err = x.write(&rec)
	case s.unended && x.grows(at):
		err = x.grow(l)
	default:
		if rec.flags = isPiece; !s.unended {
			rec.flags = 0
			s.lines++
		}
		rec.number = s.lines
		err = x.add(rec, l.Ended)
	}
	x.notify()
	return err
}

// stream returns the number of a stream.
func (x *index) stream(of Stream) (int, error) {
	if at, is := x.byID[of.ID]; is {
		return at, nil
	}
	if len(x.streams) == mostStreams {
		return 0, errFull
	}
	key := [4]string{of.Pod, of.PodUID, of.Container, of.Start}
	if x.runs[key] == nil {
		x.runs[key] = &run{}
	}
	at := len(x.streams)
	x.byID[of.ID] = at
	x.streams = append(x.streams, &stream{Stream: of, run: x.runs[key]})
	x.label()
	return at, nil
}

// label names the streams: by their container, and also by their pod and by the run of the
// container where there are several.
func (x *index) label() {
	pods, starts := map[string]bool{}, map[[2]string][]string{}
	for _, s := range x.streams {
		pods[s.Pod] = true
		container := [2]string{s.Pod, s.Container}
		if !slices.Contains(starts[container], s.PodUID+s.Start) {
			starts[container] = append(starts[container], s.PodUID+s.Start)
		}
	}
	for _, s := range x.streams {
		s.label = s.Container
		if len(pods) > 1 {
			s.label = s.Pod + "/" + s.Container
		}
		if all := starts[[2]string{s.Pod, s.Container}]; len(all) > 1 {
			s.label += fmt.Sprintf(" #%d", slices.Index(all, s.PodUID+s.Start)+1)
		}
	}
}

// grows reports whether the last record is the unended line of a stream.
func (x *index) grows(stream int) bool {
	if x.tail < 0 {
		return false
	}
	var last record
	last.next(x.open[x.tail:])
	return last.stream == stream
}

// grow adds text to the last record.
func (x *index) grow(l Line) error {
	var last record
	last.next(x.open[x.tail:])
	x.remove(&last)
	last.text = append(bytes.Clone(last.text), l.Text...)
	last.flags &^= unended | plain
	return x.add(last, l.Ended)
}

// remove takes back the last record, which is in the open block.
func (x *index) remove(r *record) {
	x.open = x.open[:x.tail]
	x.tail = -1
	x.records--
	x.last.records--
	for at := range x.last.counts {
		if c := &x.last.counts[at]; c.stream == r.stream && c.fold == r.fold {
			c.records--
		}
	}
	for at := r.fold; at > neverShown; at = x.folds[at].parent {
		x.folds[at].records--
		x.folds[at].bytes -= int64(len(r.text))
	}
}

// add adds a line, or the rest of one, as pieces.
func (x *index) add(r record, ended bool) error {
	s := x.streams[r.stream]
	s.unended = !ended
	if ended && r.flags&isPiece == 0 {
		x.marks(&r, s)
	}
	text := r.text
	for len(text) > pieceSize {
		end := cut(text, pieceSize)
		r.text = text[:end]
		r.flags |= unended
		if err := x.write(&r); err != nil {
			return err
		}
		if r.flags&isPiece == 0 {
			x.beginLongLine(&r)
		}
		text = text[end:]
		r.offset += int64(end)
		r.style, r.flags = s.style, isPiece
	}
	r.text = text
	if !ended {
		r.flags |= unended
	}
	return x.write(&r)
}

// marks reads the marks of folds, those of GitHub Actions and those of Azure Pipelines.
func (x *index) marks(r *record, s *stream) {
	switch kind := mark(r.text); {
	case kind == opens:
		r.fold, s.run.fold = 0, 0
		if len(x.folds) == mostFolds {
			return
		}
		r.flags |= opensFold
		s.run.fold = len(x.folds)
		x.heads[x.records] = len(x.folds)
		x.folds = append(x.folds, fold{head: x.records})
	case kind == closes && s.run.fold != 0:
		r.fold = neverShown
		s.run.fold = 0
	}
}

type markKind int

const (
	noMark markKind = iota
	opens
	closes
)

// lengthOfMark is that of the mark before the title of a fold, in bytes.
const lengthOfMark = len("::group::")

// mark tells whether a line opens or closes a fold.
func mark(text []byte) markKind {
	if len(text) < lengthOfMark || text[0] != ':' && text[0] != '#' {
		return noMark
	}
	switch string(text[:lengthOfMark]) {
	case "::group::", "##[group]":
		return opens
	}
	switch string(bytes.TrimRight(text, "\r\t ")) {
	case "::endgroup::", "##[endgroup]":
		return closes
	}
	return noMark
}

// beginLongLine opens a fold for the pieces of a line behind its first one, which was just
// written. Beyond the bound of folds, they are shown.
func (x *index) beginLongLine(r *record) {
	if len(x.folds) == mostFolds || r.flags&opensFold != 0 {
		return
	}
	head := x.records - 1
	x.heads[head] = len(x.folds)
	x.folds = append(x.folds, fold{parent: r.fold, head: head, longLine: true})
	r.fold = x.heads[head]
}

// write adds a record to the open block. It closes the block before if that is full.
func (x *index) write(r *record) error {
	if x.last.records >= blockRecords || len(x.open)+len(r.text) > blockSize {
		if err := x.closeBlock(); err != nil {
			return err
		}
	}
	if r.flags&isGap == 0 {
		s := x.streams[r.stream]
		if s.style = r.style; isPlain(r.text) {
			r.flags |= plain
		} else {
			s.style = styleAfter(r.text, r.style)
		}
	}
	x.last.pieces = x.last.pieces || r.flags&(isPiece|unended) != 0
	x.last.allPlain = x.last.allPlain && r.flags&(plain|isGap) != 0
	x.last.count(r)
	x.last.records++
	x.records++
	for at := r.fold; at > neverShown; at = x.folds[at].parent {
		x.folds[at].records++
		x.folds[at].bytes += int64(len(r.text))
	}
	x.tail = -1
	if r.flags&(unended|isGap) == unended {
		x.tail = len(x.open)
	}
	x.open = r.append(x.open)
	return nil
}

// count counts a record of the block.
func (b *block) count(r *record) {
	for at := range b.counts {
		if c := &b.counts[at]; c.stream == r.stream && c.fold == r.fold {
			c.records++
			return
		}
	}
	b.counts = append(b.counts, count{r.stream, r.fold, 1, r.offset})
}

// closeBlock writes the open block to the spool.
func (x *index) closeBlock() error {
	charge := int64(len(x.open) + memoryWeight*(blockMemory+countMemory*len(x.last.counts)))
	if !x.room.fits(x.charged, x.share, charge) {
		return errFull
	}
	if _, err := x.spool.WriteAt(x.open, x.written); err != nil {
		return fmt.Errorf("writing a log to a temporary file: %w", err)
	}
	x.last.at, x.last.size = x.written, len(x.open)
	x.last.counts = slices.Clip(slices.Clone(x.last.counts))
	x.blocks = append(x.blocks, x.last)
	x.written += int64(len(x.open))
	x.charged += charge
	x.room.taken.Add(charge)
	x.share.taken.Add(charge)
	x.last = block{first: x.records, allPlain: true, counts: nil}
	x.open = x.open[:0]
	x.tail = -1
	return nil
}

// count of blocks, with the open one.
func (x *index) blockCount() int {
	if x.last.records > 0 {
		return len(x.blocks) + 1
	}
	return len(x.blocks)
}

func (x *index) block(at int) *block {
	if at < len(x.blocks) {
		return &x.blocks[at]
	}
	return &x.last
}

// read returns the records of a block. The buffer is used again if it is large enough.
func (x *index) read(at int, buffer []byte) ([]byte, error) {
	if at >= len(x.blocks) {
		return append(buffer[:0], x.open...), nil
	}
	b := &x.blocks[at]
	buffer = slices.Grow(buffer[:0], b.size)[:b.size]
	if _, err := x.spool.ReadAt(buffer, b.at); err != nil {
		return nil, fmt.Errorf("reading a log from a temporary file: %w", err)
	}
	return buffer, nil
}
