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

// MaxWrite is how many bytes can be written at a time.
const MaxWrite = 256 << 10

// span is the name of an object about a range.
func span(r Range) string { return fmt.Sprintf("%016x-%x", r.From, r.Len()) }

// parseSpan reads the name of an object about a range; others than we write are none.
func parseSpan(name string) (r Range, ok bool) {
	from, length, _ := strings.Cut(name, "-")
	first, err1 := strconv.ParseInt(from, 16, 64)
	count, err2 := strconv.ParseInt(length, 16, 64)
	r = Range{first, first + count}
	return r, err1 == nil && err2 == nil && first >= 0 && r.To > first && span(r) == name
}

// Write stores bytes at an offset, durably, and when they came, if that is known. To
// write them again changes nothing; what was written before at these offsets stays.
func (s *Store) Write(ctx context.Context, id string, from int64, data []byte, marks ...times.Mark) error {
	return s.WriteMember(ctx, id, from, data, nil, marks...)
}

// WriteMember is Write of what a gzip member, and nothing behind it, was unpacked to. It
// is stored as it came, if it is like one of ours.
func (s *Store) WriteMember(ctx context.Context, id string, from int64, data, member []byte, marks ...times.Mark) error {
	r := Range{from, from + int64(len(data))}
	if r.Len() == 0 {
		return nil
	}
	if r.Len() > MaxWrite {
		return fmt.Errorf("writing %d bytes of stream %q: at most %d are written at a time", r.Len(), id, MaxWrite)
	}
	err := s.admit(ctx, id, r, forBytes)
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

// write returns storage.ErrExists if there is an object of the range.
func (s *Store) write(ctx context.Context, id string, r Range, data, member []byte, marks []times.Mark) error {
	if extra := times.Encode(r.From, marks); !likeOurs(member, data, extra) {
		var packed bytes.Buffer
		if err := compress(&packed, data, extra); err != nil {
			return err
		}
		member = packed.Bytes()
	}
	err := s.bucket.Create(ctx, directory(id)+"data/"+span(r), member)
	if err == nil {
		s.took(int64(len(member))+ObjectOverhead, 0)
	}
	return err
}

// Drop says that bytes will never come. Those that have come stay.
func (s *Store) Drop(ctx context.Context, id string, r Range) error {
	err := s.admit(ctx, id, r, forMarkers)
	if err == nil {
		err = s.create(ctx, directory(id)+"drop/"+span(r), nil)
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
	// MaxOffset is how long a stream can be, in bytes.
	MaxOffset = 1 << 60
	// appendTries is how often others may be faster, before the client has to try again.
	appendTries = 100
)

// Append stores bytes after the last that are known, and says where the first is.
// To append them again appends them twice.
func (s *Store) Append(ctx context.Context, id string, data []byte) (from int64, err error) {
	rest := data
	if err := s.admit(ctx, id, Range{0, int64(len(data))}, forBytes); err != nil {
		return 0, fmt.Errorf("appending to stream %q: %w", id, err)
	}
	for range appendTries {
		var at int64
		began := time.Now()
		if at, err = s.claim(ctx, id, int64(len(rest))); err == nil && time.Since(began) > lookLimit {
			err = errors.New("claiming an offset took too long: claims are deleted after a while") // it may have been somebody's
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
		// Somebody else was faster.
	}
	if err != nil {
		return 0, fmt.Errorf("appending to stream %q: %w", id, err)
	}
	return from, nil
}

// claim takes the bytes after the last that are known, or returns
// storage.ErrExists if somebody else has done so. It is exclusive by the offset;
// the length is in the content, so that others who come to the same offset collide.
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

// fill writes what was claimed. A client that writes at offsets as well may have
// been there: then it returns what is to be appended elsewhere, and storage.ErrExists.
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

// furthest is the offset after all bytes that are known of.
func (s *Store) furthest(ctx context.Context, id string) (end int64, err error) {
	for _, kind := range []string{"data", "drop", "joined"} { // what is joined is in one of the first or in the last
		err := s.eachPiece(ctx, id, kind, func(p piece) bool {
			end = max(end, p.To)
			return true
		})
		if err != nil {
			return 0, err
		}
	}
	// They are a chain, so the last is the furthest.
	var last string
	err = s.bucket.Each(ctx, directory(id)+"claim", func(o storage.Object) bool {
		last = max(last, o.Name)
		return true
	})
	if err != nil || last == "" {
		return end, err
	}
	length, err := s.bucket.Read(ctx, directory(id)+"claim/"+last)
	if err != nil {
		return 0, err
	}
	r, ok := parseSpan(last + "-" + string(length))
	if !ok {
		return 0, fmt.Errorf("the claim of offset %s has length %q", last, length)
	}
	return max(end, r.To), nil
}

// End says how long a stream is. That it is longer already is an error, and so is
// another length than it was given before.
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

// length is that of a stream that has ended.
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

// checkEnd returns an error if the stream ends before an offset.
func (s *Store) checkEnd(ctx context.Context, id string, to int64) error {
	total, ended, err := s.length(ctx, id)
	if err == nil && ended && to > total {
		err = ErrEnded
	}
	return err
}
