// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// Bytes of a stream are redacted because somebody wants a line gone. redact/<from>-<len> is
// written first. Each listing of a stream has it, and readers mask what is in it: each byte but
// a newline becomes '*', so all other bytes keep their offsets.
//
// Then each object that may have such bytes is rewritten with them masked, and deleted. The
// new object is in the same directory, with the bytes that count in the same place:
//
//	data/<from>-<len>-<masked>-<written>
//
// masked is how many bytes of its extent are redacted, and written the time that the former
// object has, in Unix nanoseconds. So a rewritten object has its place among others, and its
// stream doesn't expire later. Redactions are only added. So of two objects with a range, the
// one of which more is masked has all masks of the other, or both are rewritten. Its name is
// sorted behind that of the other, so a listing that doesn't have the one has the other.
//
// What comes late, a repeated request or an object of a replica that was joining, is masked
// by readers, and Tidy rewrites it. So redact/ stays for as long as the stream.

// MaxRedactions bounds the redactions of a stream, which are in each of its listings.
const MaxRedactions = 1000

// The errors of redactions.
var (
	// ErrNotStored says that there is nothing to redact.
	ErrNotStored = errors.New("the stream doesn't have all of these bytes")
	// ErrManyRedactions says that a stream can't have another redaction.
	ErrManyRedactions = fmt.Errorf("a stream has %d deleted parts at most: delete all logs of its container instead", MaxRedactions)
)

const (
	// redacters bounds the calls of one redaction at the same time.
	redacters = 4
	// maskMemory is what it takes to rewrite an object, in bytes: the object twice, its index,
	// and a member.
	maskMemory = unpackIndexMemory + 2*maxStored + 2*MaxWrite
)

// maskByte stands for each redacted byte but newlines.
const maskByte = '*'

// A mask says what of an object is masked.
type mask struct {
	bytes   int64     // how many redacted bytes there were in its extent
	created time.Time // the time of the rewritten object
}

// maskedName returns the name of an object that was rewritten.
func maskedName(r Range, masked int64, written time.Time) string {
	return fmt.Sprintf("%s-%016x-%x", rangeName(r), masked, max(0, written.UnixNano()))
}

// parseMaskedName parses a maskedName.
func parseMaskedName(o storage.Object) (r Range, written time.Time, m *mask, ok bool) {
	fields := strings.Split(o.Name, "-")
	if len(fields) != 4 {
		return r, written, nil, false
	}
	r, ok = parseRangeName(fields[0] + "-" + fields[1])
	count, err1 := strconv.ParseInt(fields[2], 16, 64)
	nanoseconds, err2 := strconv.ParseInt(fields[3], 16, 64)
	written = time.Unix(0, nanoseconds)
	ok = ok && err1 == nil && err2 == nil && count > 0 && maskedName(r, count, written) == o.Name
	return r, written, &mask{count, o.Written}, ok
}

// masked returns how many bytes of the extent of the object are masked.
func (p piece) masked() int64 {
	if p.mask == nil {
		return 0
	}
	return p.mask.bytes
}

// createdAt returns when the object was created, which may be after its bytes were written.
func (p piece) createdAt() time.Time {
	switch {
	case p.mask != nil:
		return p.mask.created
	case p.joined:
		return p.written.Add(settleTime)
	default:
		return p.written
	}
}

// extent returns the range of all bytes that may be in the object: members of joined objects
// have bytes that don't count.
func (p piece) extent() Range {
	if p.joined {
		return Range{max(0, p.object.From-MaxWrite), p.object.To + MaxWrite}
	}
	return p.object
}

// isClean reports whether the object has no redacted bytes.
func (p piece) isClean(redacted Ranges) bool { return p.masked() >= redacted.within(p.extent()) }

// within returns how many bytes of r are in the ranges.
func (rs Ranges) within(r Range) (sum int64) {
	for _, in := range rs.from(r.From) {
		if in.From >= r.To {
			break
		}
		sum += min(in.To, r.To) - max(in.From, r.From)
	}
	return sum
}

// from returns the ranges that end behind an offset.
func (rs Ranges) from(offset int64) Ranges {
	first, _ := slices.BinarySearchFunc(rs, offset, func(have Range, offset int64) int {
		if have.To <= offset {
			return -1
		}
		return 1
	})
	return rs[first:]
}

// mask masks the bytes that are in the ranges, of data from an offset on.
func (rs Ranges) mask(offset int64, data []byte) {
	for _, in := range rs.from(offset) {
		from, to := max(in.From-offset, 0), min(in.To-offset, int64(len(data)))
		if from >= to {
			return
		}
		for i, b := range data[from:to] {
			if b != '\n' {
				data[from+int64(i)] = maskByte
			}
		}
	}
}

// redacted returns what is redacted.
func (v *view) redacted() (redacted Ranges) {
	for _, p := range v.redacts {
		redacted = redacted.With(p.object)
	}
	return redacted
}

// unclean returns the objects with redacted bytes.
func (v *view) unclean() (list []piece) {
	redacted := v.redacted()
	for _, p := range slices.Concat(v.data, v.joined) {
		if !p.isClean(redacted) {
			list = append(list, p)
		}
	}
	return list
}

// known returns the bytes that are stored, or were trimmed.
func (v *view) known() (known Ranges) {
	for _, p := range slices.Concat(v.trims, v.joined, v.data) {
		known = known.With(p.object)
	}
	return known
}

// Redact makes ranges of an existing stream unreadable for good, and deletes their bytes from
// the storage. It is idempotent. It returns how many bytes are redacted, or for a dry run, would
// be. It returns ErrNotStored, ErrManyRedactions or ErrHeld, and redacts nothing. After another
// error, readers may not see the bytes any more, and some are still stored: a repeated request
// continues, and so does Tidy.
//
// A request for the same bytes that comes later is hidden, and masked by Tidy. A reader
// that has read an object before may still return its bytes.
//
// It needs memory for a listing and for redacters, of the hold of the store, or returns ErrBusy.
func (s *Store) Redact(ctx context.Context, id string, source Source, ranges Ranges, dryRun bool) (int64, error) {
	if err := s.redact(ctx, id, source, ranges, dryRun); err != nil {
		return 0, fmt.Errorf("redacting %d bytes of stream %q: %w", ranges.Len(), id, err)
	}
	return ranges.Len(), nil
}

func (s *Store) redact(ctx context.Context, id string, source Source, ranges Ranges, dryRun bool) error {
	if err := s.hold.take(redacters * maskMemory); err != nil {
		return err
	}
	h := s.hold.sibling()
	defer h.release()
	v, err := s.listForRedaction(ctx, id, h)
	if err != nil {
		return err
	}
	added, err := v.toRedact(ranges)
	if err != nil {
		return err
	}
	if isHeld, err := s.IsHeld(ctx, source); err != nil || isHeld {
		return cmp.Or(err, ErrHeld)
	}
	if dryRun {
		return nil
	}
	var group errgroup.Group
	group.SetLimit(s.redacters)
	for _, r := range added {
		group.Go(func() error { return s.create(ctx, directory(id)+"redact/"+rangeName(r), nil) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for { // until a listing has nothing that came late
		v, err := s.listForRedaction(ctx, id, h)
		if err != nil {
			return err
		}
		unclean := v.unclean()
		if len(unclean) == 0 {
			return nil
		}
		if _, err := s.maskAll(ctx, id, unclean, v.redacted()); err != nil {
			return err
		}
	}
}

// toRedact returns those of some ranges that aren't redacted yet.
func (v *view) toRedact(ranges Ranges) (added Ranges, err error) {
	known, redacted := v.known(), v.redacted()
	for _, r := range ranges {
		if !known.contain(r) {
			return nil, ErrNotStored
		}
		if !redacted.contain(r) {
			added = append(added, r)
		}
	}
	if len(added) > 0 && len(v.redacts)+len(added) > MaxRedactions {
		return nil, ErrManyRedactions
	}
	return added, nil
}

func (s *Store) listForRedaction(ctx context.Context, id string, h *memoryHold) (v view, err error) {
	h.shrinkTo(0)
	err = s.listForLayout(ctx, id, h, &layout{}, &v, "data", "joined", "redact", "trim")
	return v, err
}

// maskAll rewrites objects, and deletes the former ones. It returns the new objects: an object
// that is gone has none.
func (s *Store) maskAll(ctx context.Context, id string, objects []piece, redacted Ranges) (masked []piece, err error) {
	var group errgroup.Group
	group.SetLimit(s.redacters)
	var mu sync.Mutex
	for _, p := range objects {
		group.Go(func() error {
			m, err := s.mask(ctx, id, p, redacted)
			if errors.Is(err, storage.ErrNotFound) {
				return nil // another replica was faster
			}
			if err != nil {
				return fmt.Errorf("masking bytes in %s: %w", p.key(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			masked = append(masked, m)
			return nil
		})
	}
	return masked, group.Wait()
}

// mask rewrites an object, and deletes the former one.
func (s *Store) mask(ctx context.Context, id string, p piece, redacted Ranges) (masked piece, err error) {
	content, err := s.bucket.Read(ctx, directory(id)+p.key())
	if err != nil {
		return masked, err
	}
	if p.joined {
		content, err = maskJoined(p.object, content, redacted)
	} else {
		content, err = maskMember(p.object, content, redacted)
	}
	if err != nil {
		return masked, err
	}
	masked = p
	masked.mask, masked.size = &mask{bytes: redacted.within(p.extent())}, int64(len(content))
	if err := s.create(ctx, directory(id)+masked.key(), content); err != nil {
		return masked, err
	}
	return masked, s.bucket.Delete(ctx, directory(id)+p.key())
}

// maskMember returns a gzip member with redacted bytes masked, and the same times.
func maskMember(object Range, content []byte, redacted Ranges) ([]byte, error) {
	data := make([]byte, object.Len())
	extra, err := new(inflater).inflate(data, content)
	if err != nil {
		return nil, err
	}
	redacted.mask(object.From, data)
	var packed bytes.Buffer
	if err := compress(&packed, data, extra); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// maskJoined returns a joined object with redacted bytes masked, also those that don't count.
func maskJoined(name Range, content []byte, redacted Ranges) ([]byte, error) {
	from, err := decodeJoined(name, content)
	if err != nil {
		return nil, err
	}
	to := &joinedObject{name: name}
	for at := name.From; at < name.To; {
		m := from.memberAt(at)
		if redacted.within(m.object) > 0 {
			if m.content, err = maskMember(m.object, m.content, redacted); err != nil {
				return nil, err
			}
		}
		to.add(m, name)
		at = m.counts.To
	}
	return to.encode()
}

// maskRedacted rewrites objects with redacted bytes, which have come late, or which a request
// to redact them didn't come to. It deletes redactions of bytes that were trimmed.
func (t *tidier) maskRedacted(ctx context.Context) error {
	if len(t.redacts) == 0 {
		return nil
	}
	unclean := t.unclean()
	masked, err := t.store.maskAll(ctx, t.id, unclean, t.redacted())
	if err != nil {
		return err
	}
	for _, p := range unclean {
		t.Bytes -= p.size + ObjectOverhead
		t.Deleted++
	}
	isUnclean := func(p piece) bool { return slices.ContainsFunc(unclean, p.isOf) }
	t.data, t.joined = slices.DeleteFunc(t.data, isUnclean), slices.DeleteFunc(t.joined, isUnclean)
	for _, p := range masked {
		p.mask.created = t.now
		list := &t.data
		if p.joined {
			list = &t.joined
		}
		if slices.ContainsFunc(*list, func(q piece) bool { return q.name() == p.name() }) {
			continue // it was listed, too
		}
		*list = append(*list, p)
		t.Bytes += p.size + ObjectOverhead
		t.Joined++
	}
	return t.forgetRedactions(ctx)
}

// forgetRedactions deletes redactions that are trimmed, and of which no object is left that
// was masked because of them.
func (t *tidier) forgetRedactions(ctx context.Context) error {
	var extents Ranges
	for _, p := range slices.Concat(t.data, t.joined) {
		extents = extents.With(p.extent())
	}
	var old []doomed
	for _, p := range t.redacts {
		if p.object.To <= t.Trimmed && t.now.Sub(p.written) >= erasedAge && extents.within(p.object) == 0 {
			old = append(old, doomed{"redact/" + rangeName(p.object), p.size})
		}
	}
	return t.delete(ctx, old)
}

// joinedName returns the object that a group of pieces is joined to. Its parts are clean, and
// so it is.
func (t *tidier) joinedName(group []piece) piece {
	p := piece{object: Range{group[0].From, group[len(group)-1].To}, joined: true}
	p.Range = p.object
	if redacted := t.redacted().within(p.extent()); redacted > 0 {
		p.mask = &mask{bytes: redacted, created: t.now}
		for _, part := range group {
			p.written = latest(p.written, part.written)
		}
	}
	return p
}
