// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"errors"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/mask"
	"github.com/entrypointer/entrypointer/internal/ring"
)

const (
	// batch is how many bytes are sent at a time: what the service takes.
	batch = 256 << 10
	// linger is how long a byte waits for others to be sent with it.
	linger = 250 * time.Millisecond
	// piece is how many bytes are read from the ring at a time.
	piece = 64 << 10
)

// A sender sends one stream.
type sender struct {
	ring   *ring.Reader
	stream ring.Stream
	client *client

	id     string       // of the stream at the service, "" as long as it isn't made
	masker *mask.Masker // for what comes
	renew  func() bool  // puts another one there, if there are new secrets
	// renewed says that it has done so, and sending wasn't tried since.
	renewed bool
	masked  *mask.Stream // nil when it is to be begun, or taken up with another masker
	using   *mask.Masker // by masked
	read    int64        // the offset in the ring of what comes next
	piece   []byte

	// out is what is ready to be sent. It begins at from.
	out   []byte
	from  int64
	since time.Time // when its first byte came
	// dropped is what comes after out, if it is to be marked.
	dropped int64 // its length
	lost    int64 // how much was marked before
	ended   bool

	evenEmpty bool // the service is told of the stream also if it has nothing
	complete  bool

	backoff backoff
	next    time.Time // not to try before
	failing bool
	hurried bool // tried at once when it was known that nothing more will come
}

func newSender(r *ring.Reader, stream ring.Stream, c *client, m *mask.Masker, renew func() bool) *sender {
	p := r.Progress(stream)
	return &sender{
		evenEmpty: stream != ring.Events && anyPrinted(r),
		ring:      r, stream: stream, client: c, masker: m, renew: renew, piece: make([]byte, piece),
		lost: max(p.Dropped, 0), complete: r.Closed(stream),
	}
}

// anyPrinted reports whether the command has printed something. Of one that hasn't,
// the service knows the events alone.
func anyPrinted(r *ring.Reader) bool {
	return slices.ContainsFunc(ring.Printed[:], func(s ring.Stream) bool {
		written, _ := r.Written(s)
		return written > 0
	})
}

// takeUp begins where the last progress was noted: what was masked since, with other
// secrets, isn't sent.
func (s *sender) takeUp() {
	p := s.ring.Progress(s.stream)
	at := max(p.At, 0)
	s.masked = s.masker.Stream(mask.State{At: at, MaskedUntil: p.MaskedUntil, AfterGap: p.AfterGap != 0})
	s.using = s.masker
	s.read, s.from, s.out, s.dropped, s.ended = at, at, s.out[:0], 0, false
}

// advance does what is to be done next, and returns how long there is nothing more
// to do. If it fails, it does the same again the next time.
func (s *sender) advance(now time.Time) (time.Duration, error) {
	if s.complete {
		return forever, nil
	}
	if s.masked == nil || s.using != s.masker {
		s.takeUp()
	}
	if left := s.next.Sub(now); left > 0 {
		return left, nil
	}
	s.fill(now)
	switch {
	case len(s.out) >= batch, s.dropped > 0, s.ended:
		return 0, s.send()
	case len(s.out) == 0:
		return forever, nil
	}
	if left := linger - now.Sub(s.since); left > 0 {
		return left, nil
	}
	return 0, s.send()
}

// failed has the sender try again later.
func (s *sender) failed(err error, now time.Time) {
	s.failing, s.renewed = true, false // more may be read until the next try, and more be secret
	pause := s.backoff.after(err)
	if asked, is := errors.AsType[*again](err); s.ended && (!is || asked.after == 0) {
		pause = min(pause, lastPause) // the container waits for it
	}
	s.next = now.Add(pause)
}

// wakeAt is how much has to be printed for this sender to have something to do
// before the time is up.
func (s *sender) wakeAt(now time.Time) int64 {
	if s.complete || s.ended || s.next.After(now) {
		return 1 << 62
	}
	if len(s.out) > 0 {
		return s.read + int64(batch-len(s.out))
	}
	return s.read + 1
}

// fill reads and masks up to a batch, or to where bytes are missing.
func (s *sender) fill(now time.Time) {
	for len(s.out) < batch && s.dropped == 0 && !s.ended {
		written, ended := s.ring.Written(s.stream)
		n, floor := s.ring.Read(s.stream, s.read, s.piece[:min(piece, batch-len(s.out))])
		switch {
		case floor > s.read:
			s.dropped = floor - s.read
			s.add(s.masked.Gap(s.dropped), now)
			s.read = floor
		case n > 0:
			s.read += int64(n)
			s.add(s.masked.Write(s.piece[:n]), now)
		default:
			if s.ended = ended && written == s.read; s.ended {
				s.add(s.masked.End(), now)
			}
			return
		}
	}
}

func (s *sender) add(masked []byte, now time.Time) {
	if len(s.out) == 0 {
		s.since = now
	}
	s.out = append(s.out, masked...)
}

// send sends all that is ready, and notes it; or nothing, if it is to be masked anew.
func (s *sender) send() error {
	// After it was read: a secret that is in a file is there before it is printed. Once,
	// so that a file which changes all the time holds nothing up.
	if !s.renewed && s.renew() {
		s.renewed = true
		return nil
	}
	if s.ended && s.read == 0 && !s.evenEmpty {
		s.finish()
		return nil
	}
	if s.id == "" {
		id, err := s.client.create(s.stream.Name())
		if err != nil {
			return err
		}
		s.id = id
	}
	err := s.sendReady()
	if errors.Is(err, errNoStream) {
		s.id = "" // the service has lost it: make it again
	}
	if err != nil {
		return err
	}
	s.failing, s.renewed = false, false
	s.backoff.reset()
	if s.ended {
		s.finish()
	}
	return nil
}

// finish says that nothing is left to do.
func (s *sender) finish() {
	s.complete = true
	s.ring.Close(s.stream)
}

func (s *sender) sendReady() error {
	at, lost := s.from, s.lost
	for rest := s.out; len(rest) > 0; {
		part := rest[:min(len(rest), batch)]
		err := s.client.patch(s.id, at, part, s.ring.Marks(s.stream, at, at+int64(len(part))))
		if errors.Is(err, errRefused) {
			// It won't be taken another time either.
			err = s.drop(at, int64(len(part)))
			lost += int64(len(part))
		}
		if err != nil {
			return err
		}
		at, rest = at+int64(len(part)), rest[len(part):]
	}
	if s.dropped > 0 {
		if err := s.drop(at, s.dropped); err != nil {
			return err
		}
		at, lost = at+s.dropped, lost+s.dropped
	}
	if s.ended {
		if err := s.client.end(s.id, at); err != nil {
			return err
		}
	}
	s.out, s.dropped, s.from, s.lost = s.out[:0], 0, at, lost
	s.note(at)
	return nil
}

// drop marks bytes that aren't sent. Where the service takes no marker either, they
// read as missing.
func (s *sender) drop(at, length int64) error {
	if err := s.client.drop(s.id, at, length); !errors.Is(err, errRefused) {
		return err
	}
	return nil
}

// note keeps in the ring that all is sent which isn't held back.
func (s *sender) note(at int64) {
	state := s.masked.State()
	p := ring.Progress{At: at, MaskedUntil: state.MaskedUntil, Dropped: s.lost}
	if state.AfterGap {
		p.AfterGap = 1
	}
	s.ring.Note(s.stream, p)
}
