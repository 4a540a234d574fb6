// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// MaxWrite bounds one write, in bytes.
const MaxWrite = 256 << 10

// rangeName returns the name of an object with a range.
func rangeName(r Range) string { return fmt.Sprintf("%016x-%x", r.From, r.Len()) }

// parseRangeName parses a rangeName. It rejects other spellings of the same range.
func parseRangeName(name string) (r Range, ok bool) {
	from, length, _ := strings.Cut(name, "-")
	first, err1 := strconv.ParseInt(from, 16, 64)
	count, err2 := strconv.ParseInt(length, 16, 64)
	r = Range{first, first + count}
	return r, err1 == nil && err2 == nil && first >= 0 && r.To > first && rangeName(r) == name
}

// Write stores bytes durably at an offset, with the times at which they were printed, if
// these are known. It is idempotent. Where bytes are stored already, those stay.
func (s *Store) Write(ctx context.Context, id string, from int64, data []byte, marks ...times.Mark) error {
	return s.WriteMember(ctx, id, from, data, nil, marks...)
}

// WriteMember is Write for bytes that came as one gzip member. If the member is
// canonical, it is stored unchanged.
func (s *Store) WriteMember(ctx context.Context, id string, from int64, data, member []byte, marks ...times.Mark) error {
	r := Range{from, from + int64(len(data))}
	if r.Len() == 0 {
		return nil
	}
	if r.Len() > MaxWrite {
		return fmt.Errorf("writing %d bytes of stream %q: write at most %d at a time", r.Len(), id, MaxWrite)
	}
	err := s.admit(ctx, id, dataObject)
	if err == nil {
		err = s.write(ctx, id, r, data, member, marks)
	}
	if err == nil || errors.Is(err, storage.ErrExists) {
		err = s.checkEnd(ctx, id, r.To)
	}
	if err != nil {
		return fmt.Errorf("writing bytes %d to %d of stream %q: %w", r.From, r.To-1, id, err)
	}
	return nil
}

// write stores an object. It returns storage.ErrExists if there is one with the same
// range.
func (s *Store) write(ctx context.Context, id string, r Range, data, member []byte, marks []times.Mark) error {
	if extra := times.Encode(r.From, marks); !isCanonical(member, data, extra) {
		var packed bytes.Buffer
		if err := compress(&packed, data, extra); err != nil {
			return err
		}
		member = packed.Bytes()
	}
	err := s.bucket.Create(ctx, directory(id)+"data/"+rangeName(r), member)
	if err == nil {
		s.took(int64(len(member))+ObjectOverhead, 0)
	}
	return err
}

// Drop marks a range as dropped. Bytes in it that are stored stay.
func (s *Store) Drop(ctx context.Context, id string, r Range) error {
	err := s.admit(ctx, id, markerObject)
	if err == nil {
		err = s.create(ctx, directory(id)+"drop/"+rangeName(r), nil)
	}
	if err == nil {
		err = s.checkEnd(ctx, id, r.To)
	}
	if err != nil {
		return fmt.Errorf("marking bytes %d to %d of stream %q as dropped: %w", r.From, r.To-1, id, err)
	}
	return nil
}

const (
	// MaxOffset bounds the length of a stream, in bytes.
	MaxOffset = 1 << 60
	// maxAppendTries bounds the attempts to claim an offset that others claim at the same
	// time.
	maxAppendTries = 100
)

// Append stores bytes behind the last known byte, and returns the offset of the first. It
// isn't idempotent.
func (s *Store) Append(ctx context.Context, id string, data []byte) (from int64, err error) {
	rest := data
	if err := s.admit(ctx, id, dataObject); err != nil {
		return 0, fmt.Errorf("appending to stream %q: %w", id, err)
	}
	for range maxAppendTries {
		var at int64
		began := time.Now()
		if at, err = s.claim(ctx, id, int64(len(rest))); err == nil && time.Since(began) > listTimeout {
			err = errors.New("claiming an offset took too long: another client may have claimed it too")
		}
		if err == nil {
			if len(rest) == len(data) {
				from = at
			}
			rest, err = s.fill(ctx, id, at, rest)
		}
		if !errors.Is(err, storage.ErrExists) {
			break
		}
		// Another client was faster.
	}
	if err != nil {
		return 0, fmt.Errorf("appending to stream %q: %w", id, err)
	}
	return from, nil
}

// claim reserves the bytes behind the last known byte, or returns storage.ErrExists if
// another client was faster. The name of a claim has only the offset, so that two claims
// of the same offset collide. Its content is the length.
func (s *Store) claim(ctx context.Context, id string, length int64) (at int64, err error) {
	if _, ended, err := s.length(ctx, id); err != nil || ended {
		return 0, cmp.Or(err, ErrEnded)
	}
	if at, err = s.furthest(ctx, id); err != nil {
		return 0, err
	}
	if at > MaxOffset-length {
		return 0, ErrEnded
	}
	return at, s.bucket.Create(ctx, path.Join(directory(id), "claim", fmt.Sprintf("%016x", at)), []byte(strconv.FormatInt(length, 16)))
}

// fill writes the bytes of a claim. If a client that writes at offsets has used the same
// range, fill returns storage.ErrExists and the bytes that are to be appended elsewhere.
func (s *Store) fill(ctx context.Context, id string, at int64, data []byte) (rest []byte, err error) {
	for len(data) > 0 {
		n := min(len(data), MaxWrite)
		if err := s.write(ctx, id, Range{at, at + int64(n)}, data[:n], nil, nil); err != nil {
			return data, err
		}
		at, data = at+int64(n), data[n:]
	}
	return nil, s.checkEnd(ctx, id, at)
}

// furthest returns the offset behind the last known byte.
func (s *Store) furthest(ctx context.Context, id string) (end int64, err error) {
	var last string // each claim is behind the one before it, so the last one counts
	err = s.eachObject(ctx, id, func(kind string, o storage.Object) bool {
		if kind == "claim" {
			last = o.Name
		} else if p, ok := pieceOf(o, kind); ok && kind != "" {
			end = max(end, p.To)
		}
		return true
	})
	if err != nil || last == "" {
		return end, err
	}
	length, err := s.bucket.Read(ctx, directory(id)+"claim/"+last)
	if err != nil {
		return 0, err
	}
	r, ok := parseRangeName(last + "-" + string(length))
	if !ok {
		return 0, fmt.Errorf("reading the claim of offset %s: its length is %q", last, length)
	}
	return max(end, r.To), nil
}

// End sets the length of a stream. It returns ErrConflict if the stream is longer, or has
// another length.
func (s *Store) End(ctx context.Context, id string, total int64) error {
	if err := s.end(ctx, id, total); err != nil {
		return fmt.Errorf("ending stream %q after %d bytes: %w", id, total, err)
	}
	return nil
}

func (s *Store) end(ctx context.Context, id string, total int64) error {
	if have, ended, err := s.length(ctx, id); err != nil || ended {
		return sameLength(have, total, err)
	}
	furthest, err := s.furthest(ctx, id)
	if err != nil {
		return err
	}
	if furthest > total {
		return ErrConflict
	}
	err = s.bucket.Create(ctx, directory(id)+"end", []byte(strconv.FormatInt(total, 10)))
	s.ends.forget(id)
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	have, _, err := s.length(ctx, id)
	return sameLength(have, total, err)
}

func sameLength(have, want int64, err error) error {
	if err == nil && have != want {
		err = ErrConflict
	}
	return err
}

// length returns the length of a stream that has ended.
func (s *Store) length(ctx context.Context, id string) (total int64, ended bool, err error) {
	content, err := s.bucket.Read(ctx, directory(id)+"end")
	if errors.Is(err, storage.ErrNotFound) {
		return 0, false, nil
	}
	if err == nil {
		total, err = strconv.ParseInt(string(content), 10, 64)
	}
	return total, err == nil, err
}
