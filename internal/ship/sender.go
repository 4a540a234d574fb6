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
	// window is how many parts of a stream there are at most that the service may lack.
	window = 4
)

// A sender sends one stream.
type sender struct {
	ring   *ring.Reader
	stream ring.Stream
	client *client

	id     string       // of the stream at the service, "" as long as it isn't made
	masker *mask.Masker // for what comes
	// renewed says that it was put there before something was to be sent, and that
	// nothing was since.
	renewed bool
	masked  *mask.Stream // nil when it is to be begun, or taken up with another masker
	using   *mask.Masker // by masked
	read    int64        // the offset in the ring of what comes next
	piece   []byte

	// out is what is ready to be sent. It begins at from.
	out   []byte
	from  int64
	since time.Time // when its first byte came
	lacks int64     // how many bytes after out the ring has lost
	ended bool      // nothing comes after that

	parts   queue  // of what was ready before
	lost    int64  // how many bytes were dropped of what is done
	refusal string // why the last bytes weren't taken and are marked, "" if they were

	evenEmpty bool // the service is told of the stream also if it has nothing
	complete  bool

	backoff backoff
	next    time.Time // not to try before
	failing bool
	hurried bool // tried at once when it was known that nothing more will come
}

func newSender(r *ring.Reader, stream ring.Stream, c *client, m *mask.Masker) *sender {
	p := r.Progress(stream)
	return &sender{
		evenEmpty: stream != ring.Events && anyPrinted(r),
		ring:      r, stream: stream, client: c, masker: m, piece: make([]byte, piece),
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
	s.read, s.from, s.out, s.lacks, s.ended = at, at, s.out[:0], 0, false
	s.parts, s.lost = nil, max(p.Dropped, 0)
}

// outdated reports whether what is ready was masked without the latest secrets.
func (s *sender) outdated() bool { return s.masked == nil || s.using != s.masker }

// due gets ready what there is, and reports whether a part is to be sent now. If not,
// it returns when there may be one: forever if an answer, or the supervisor, tells.
func (s *sender) due(now time.Time) (is bool, wait time.Duration) {
	if s.complete {
		return false, forever
	}
	underWay := s.parts.underWay()
	if s.outdated() {
		if underWay > 0 {
			s.renewed = false     // more may be read until then, and more be secret
			return false, forever // what they come to is noted first
		}
		s.takeUp()
	}
	if left := s.next.Sub(now); left > 0 {
		return false, left
	}
	s.fill(now)
	if s.ended && s.read == 0 && !s.evenEmpty {
		s.finish()
		return false, forever
	}
	return s.isReady(now, underWay)
}

// isReady is due of what was got ready, where so many parts are under way.
func (s *sender) isReady(now time.Time, underWay int) (is bool, wait time.Duration) {
	switch {
	case underWay > 0 && (s.failing || s.id == ""):
		return false, forever
	case s.parts.waiting() != nil:
		return true, 0 // those behind it may be as many as there can be
	case len(s.parts) >= window:
		return false, forever
	case len(s.out) >= batch, s.lacks > 0:
		return true, 0
	case s.ended && (len(s.out) > 0 || len(s.parts) == 0):
		return true, 0 // it ends when the service has the rest
	case len(s.out) == 0, underWay > 0:
		return false, forever
	}
	left := linger - now.Sub(s.since)
	return left <= 0, max(left, 0)
}

// isLarge reports whether what is due is worth a second connection.
func (s *sender) isLarge() bool { return len(s.out) >= batch || s.lacks > 0 || s.parts.underWay() > 0 }

// part is what is due.
func (s *sender) part() *part {
	p := s.parts.waiting()
	if p == nil {
		p = s.cut()
		s.parts = append(s.parts, p)
	}
	p.underWay, p.failed, s.renewed = true, false, false
	return p
}

// cut takes a part off what is ready.
func (s *sender) cut() *part {
	p := &part{from: s.from}
	switch n := min(len(s.out), batch); {
	case n > 0:
		p.kind, p.to = stored, s.from+int64(n)
		p.packed, p.encoding = s.client.pack(s.out[:n], p.from, s.ring.Marks(s.stream, p.from, p.to))
		s.out = s.out[:copy(s.out, s.out[n:])]
	case s.lacks > 0:
		p.kind, p.to = dropped, s.from+s.lacks
		s.lacks = 0
	default:
		p.kind, p.to = ended, s.from
	}
	s.from = p.to
	if len(s.out) == 0 && s.lacks == 0 {
		state := s.masked.State()
		p.state = &state
	}
	return p
}

// answered takes note of what the service has said about a part, for which the stream
// was made if it wasn't. It returns the error if it has to be sent again.
func (s *sender) answered(p *part, a answer, now time.Time) error {
	p.underWay = false
	if a.making && a.made {
		s.id = a.id
	}
	switch {
	case a.err == nil, p.kind == dropped && a.made && errors.Is(a.err, errRefused):
		// Where no marker is taken either, the bytes read as missing.
		p.done = true
		if p.kind == stored {
			s.refusal = ""
		}
	case p.kind == stored && a.made && errors.Is(a.err, errRefused):
		// They won't be taken another time either.
		p.kind, p.packed = dropped, nil
		s.refusal = a.err.Error()
	default:
		p.failed = true
		s.failed(a, now)
		return a.err
	}
	if !s.parts.failed() {
		s.failing = false
		s.backoff.reset()
	}
	s.advance()
	return nil
}

// failed has the sender try again later.
func (s *sender) failed(a answer, now time.Time) {
	if errors.Is(a.err, errNoStream) && s.id == a.id {
		s.id = "" // the service has lost it, and what was stored: make it again
		for _, p := range s.parts {
			p.done = false
		}
	}
	s.failing, s.renewed = true, false // more may be read until the next try, and more be secret
	if s.next.After(now) {
		return // another part has failed as well
	}
	pause := s.backoff.after(a.err)
	if asked, is := errors.AsType[*again](a.err); s.ended && !errors.Is(a.err, errRefused) && (!is || asked.after == 0) {
		pause = min(pause, lastPause) // the container waits for it
	}
	s.next = now.Add(pause)
}

// advance leaves behind what is done.
func (s *sender) advance() {
	for len(s.parts) > 0 && s.parts[0].done {
		p := s.parts[0]
		s.parts = s.parts[1:]
		s.client.reuse(p.packed)
		if p.kind == dropped {
			s.lost += p.length()
		}
		if p.state != nil {
			s.note(p.to, *p.state)
		}
		if p.kind == ended {
			s.finish()
		}
	}
}

// finish says that nothing is left to do.
func (s *sender) finish() {
	s.complete = true
	s.ring.Close(s.stream)
}

// note keeps in the ring that all is done which comes before an offset.
func (s *sender) note(at int64, state mask.State) {
	p := ring.Progress{At: at, MaskedUntil: state.MaskedUntil, Dropped: s.lost}
	if state.AfterGap {
		p.AfterGap = 1
	}
	s.ring.Note(s.stream, p)
}

// wakeAt is how much has to be printed for this sender to have something to do
// before the time is up.
func (s *sender) wakeAt(now time.Time) int64 {
	if s.complete || s.ended || s.next.After(now) || s.outdated() || len(s.out) >= batch || s.lacks > 0 {
		return 1 << 62
	}
	if len(s.out) > 0 {
		return s.read + int64(batch-len(s.out))
	}
	return s.read + 1
}

// fill reads and masks up to a batch, or to where bytes are missing.
func (s *sender) fill(now time.Time) {
	for len(s.out) < batch && s.lacks == 0 && !s.ended {
		written, ended := s.ring.Written(s.stream)
		n, floor := s.ring.Read(s.stream, s.read, s.piece[:min(piece, batch-len(s.out))])
		switch {
		case floor > s.read:
			s.lacks = floor - s.read
			s.add(s.masked.Gap(s.lacks), now)
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
