// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"errors"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/mask"
	"github.com/entrypointer/entrypointer/internal/ring"
)

const (
	// batchSize bounds a part, in bytes: the service accepts no larger one.
	batchSize = 256 << 10
	// partsInRing is into how many parts a ring is cut at least, so that one is sent while
	// the next is filled.
	partsInRing = 4
	// readSize bounds one read from the ring, in bytes.
	readSize = 64 << 10
	// window bounds the unfinished parts of a stream.
	window = 4
)

// A sender sends one stream: it reads from the ring, masks, cuts parts, and keeps them
// until the service has stored them.
type sender struct {
	ring   *ring.Reader
	stream ring.Stream
	client *client

	id     string       // of the stream at the service, "" before the service has created it
	masker *mask.Masker // the latest; maskStream may still use an older one
	// secretsReloaded says that changed secrets were loaded for the next part. The part is
	// then sent without another inspection, so that a file which changes all the time
	// doesn't hold it back.
	secretsReloaded bool
	inspectedUntil  int64        // with secretsReloaded: later bytes may have secrets that weren't loaded
	maskStream      *mask.Stream // nil before the first resume
	maskedBy        *mask.Masker // the masker of maskStream
	readAt          int64        // the offset of the next read from the ring
	buffer          []byte
	batch           int // the size of a full part, in bytes

	// ready has the masked bytes, from offset readyFrom on, that are in no part yet.
	ready       []byte
	readyFrom   int64
	readySince  time.Time // when the first byte of ready was read
	lostAfter   int64     // how many bytes behind ready the ring has overwritten
	streamEnded bool      // the stream ends behind ready and lostAfter

	// linger is the pause between two parts that aren't full. lastCut is when the last one
	// was cut, marksAtCut how many times the ring had noted by then.
	linger     time.Duration
	lastCut    time.Time
	marksAtCut int64

	parts   queue  // cut off from ready, and not done yet
	dropped int64  // of the finished parts, in bytes
	refusal string // why the last dataPart was refused, "" if it was stored

	sendEmpty bool // create the stream even if it has no bytes
	complete  bool

	backoff    backoff
	nextTry    time.Time // the time of the next attempt
	retrying   bool
	triedAtEnd bool // the end of the stream has cut the pause short
}

func newSender(r *ring.Reader, stream ring.Stream, c *client, m *mask.Masker) *sender {
	p := r.Progress(stream)
	return &sender{
		// For a silent command, the service gets only the stream of events.
		sendEmpty: stream != ring.Events && r.HasPrinted(),
		ring:      r, stream: stream, client: c, masker: m, buffer: make([]byte, readSize),
		dropped: max(p.Dropped, 0), complete: r.IsComplete(stream),
		linger: retries.ShortestLinger,
		batch:  int(min(batchSize, r.Capacity(stream)/partsInRing)),
	}
}

// resume continues from the last saved progress. It discards what was masked since: the
// latest masker has more secrets.
func (s *sender) resume() {
	p := s.ring.Progress(s.stream)
	at := max(p.At, 0)
	s.maskStream = s.masker.Stream(mask.State{At: at, MaskedUntil: p.MaskedUntil, AfterGap: p.AfterGap != 0})
	s.maskedBy = s.masker
	s.readAt, s.readyFrom, s.ready, s.lostAfter, s.streamEnded = at, at, s.ready[:0], 0, false
	s.parts, s.dropped = nil, max(p.Dropped, 0)
	s.ring.WantMore(s.stream, false)
}

// outdated reports whether ready was masked without the latest secrets.
func (s *sender) outdated() bool { return s.maskStream == nil || s.maskedBy != s.masker }

// prepare reads and masks what the ring has, and reports whether a part is to be sent
// now. If not, it returns for how long to wait: untilWoken if a response or the
// supervisor will wake the shipper.
func (s *sender) prepare(now time.Time) (is bool, wait time.Duration) {
	if s.complete {
		return false, untilWoken
	}
	inFlight := s.parts.inFlight()
	if s.outdated() {
		if inFlight > 0 {
			s.secretsReloaded = false // the files may change before the next part
			return false, untilWoken  // their progress is saved first
		}
		s.resume()
	}
	if left := s.nextTry.Sub(now); left > 0 {
		return false, left
	}
	s.readRing(now)
	s.ring.WantMore(s.stream, s.needsMore())
	if s.streamEnded && s.readAt == 0 && !s.sendEmpty {
		s.finish()
		return false, untilWoken
	}
	return s.hasPart(now, inFlight)
}

// hasPart is prepare after reading.
func (s *sender) hasPart(now time.Time, inFlight int) (is bool, wait time.Duration) {
	switch {
	case inFlight > 0 && (s.retrying || s.id == ""):
		return false, untilWoken
	case s.parts.nextToSend() != nil:
		return true, 0 // a retry doesn't count against the window
	case len(s.parts) >= window:
		return false, untilWoken
	case s.isFull(), s.lostAfter > 0, len(s.ready) > 0 && s.secretsReloaded:
		return true, 0
	case s.streamEnded && (len(s.ready) > 0 || len(s.parts) == 0):
		return true, 0 // the endPart goes alone, after all others
	case len(s.ready) == 0, inFlight > 0:
		return false, untilWoken
	}
	left := s.lingersFor(now)
	return left <= 0, min(max(left, 0), marksPause)
}

// marksPause is how often a lingering sender looks at the number of marks. Within it, the
// ring gets one for each millisecond at most.
const marksPause = time.Second

// lingersFor returns for how long ready waits for more bytes. After a silence, that is the
// shortest time, so the first line of a burst is seen at once.
func (s *sender) lingersFor(now time.Time) time.Duration {
	left := retries.ShortestLinger - now.Sub(s.readySince)
	if s.ring.MarkCount(s.stream)-s.marksAtCut >= ring.MaxMarks/partsInRing {
		return left // or the ring forgets when these bytes were printed
	}
	return max(left, s.linger-now.Sub(s.lastCut))
}

// isLingering reports whether bytes wait for more.
func (s *sender) isLingering() bool { return len(s.ready) > 0 }

// pending returns how many bytes were read and are in no part yet, in bytes: those of
// ready, and those that the masker holds back.
func (s *sender) pending() int { return int(s.readAt - s.lostAfter - s.readyFrom) }

// needsMore reports whether the masker holds back all bytes of a full part. A secret may be
// longer than the ring, and the command mustn't wait then.
func (s *sender) needsMore() bool {
	return len(s.ready) == 0 && len(s.parts) == 0 && s.lostAfter == 0 && s.pending() >= s.batch
}

// isFull reports whether a full part is ready. What the masker holds back counts, so that
// no part ends in the middle of ready, where masking can't resume.
func (s *sender) isFull() bool { return len(s.ready) > 0 && s.pending() >= s.batch }

// isLarge reports whether the next part is worth a second request in flight.
func (s *sender) isLarge() bool {
	return s.isFull() || s.lostAfter > 0 || s.parts.inFlight() > 0
}

// nextPart returns the part to send now.
func (s *sender) nextPart() *part {
	p := s.parts.nextToSend()
	if p == nil {
		p = s.cutPart()
		s.parts = append(s.parts, p)
	}
	p.inFlight, p.failed, s.secretsReloaded = true, false, false
	return p
}

// cutPart takes the next part from ready.
func (s *sender) cutPart() *part {
	p := &part{from: s.readyFrom}
	switch n := min(len(s.ready), batchSize); {
	case n > 0:
		p.kind, p.to = dataPart, s.readyFrom+int64(n)
		s.lastCut, s.marksAtCut = time.Now(), s.ring.MarkCount(s.stream)
		p.packed, p.encoding = s.client.compress(s.ready[:n], p.from, s.ring.Marks(s.stream, p.from, p.to))
		s.ready = s.ready[:copy(s.ready, s.ready[n:])]
	case s.lostAfter > 0:
		p.kind, p.to = droppedPart, s.readyFrom+s.lostAfter
		s.lostAfter = 0
	default:
		p.kind, p.to = endPart, s.readyFrom
	}
	s.readyFrom = p.to
	if len(s.ready) == 0 && s.lostAfter == 0 {
		state := s.maskStream.State()
		p.state = &state
	}
	return p
}

// handleAnswer notes the outcome of a part. It returns the error if the part has to be
// sent again.
func (s *sender) handleAnswer(p *part, a outcome, now time.Time) error {
	p.inFlight = false
	if a.creating && a.created {
		s.id = a.id
	}
	if a.err == nil {
		s.linger = a.linger
	}
	switch {
	case a.err == nil, p.kind == droppedPart && a.created && errors.Is(a.err, errRefused):
		// If the marker is refused as well, readers see the bytes as missing.
		p.done = true
		if p.kind == dataPart {
			s.refusal = ""
		}
	case p.kind == dataPart && a.created && errors.Is(a.err, errRefused):
		// A retry would be refused as well: mark the bytes as dropped.
		p.kind, p.packed = droppedPart, nil
		s.refusal = a.err.Error()
	default:
		p.failed = true
		s.scheduleRetry(a, now)
		return a.err
	}
	if !s.parts.hasFailed() {
		s.retrying = false
		s.backoff.reset()
	}
	s.removeDone()
	return nil
}

// scheduleRetry sets the time of the next attempt after an error.
func (s *sender) scheduleRetry(a outcome, now time.Time) {
	if errors.Is(a.err, errNoStream) && s.id == a.id {
		s.id = "" // the service has lost the stream: create it, and send every part again
		for _, p := range s.parts {
			p.done = false
		}
	}
	s.retrying, s.secretsReloaded = true, false // the files may change before the next attempt
	if s.nextTry.After(now) {
		return // set by the failure of another part
	}
	pause := s.backoff.pauseAfter(a.err)
	if asked, is := errors.AsType[*retryError](a.err); s.streamEnded && !errors.Is(a.err, errRefused) && (!is || asked.wait == 0) {
		pause = min(pause, finalPause) // the end of the container waits
	}
	s.nextTry = now.Add(pause)
}

// removeDone removes the finished parts at the head of the queue, and saves the progress.
func (s *sender) removeDone() {
	for len(s.parts) > 0 && s.parts[0].done {
		p := s.parts[0]
		s.parts = s.parts[1:]
		s.client.recycle(p.packed)
		if p.kind == droppedPart {
			s.dropped += p.length()
		}
		if p.state != nil {
			s.saveProgress(p.to, *p.state)
		}
		if p.kind == endPart {
			s.finish()
		}
	}
}

// finish marks the stream as complete.
func (s *sender) finish() {
	s.complete = true
	s.ring.MarkComplete(s.stream)
}

// saveProgress saves in the ring that the service has everything before an offset.
func (s *sender) saveProgress(at int64, state mask.State) {
	p := ring.Progress{At: at, MaskedUntil: state.MaskedUntil, Dropped: s.dropped}
	if state.AfterGap {
		p.AfterGap = 1
	}
	s.ring.SaveProgress(s.stream, p)
}

// wakeThreshold returns the number of written bytes at which the supervisor has to wake
// the shipper for this stream.
func (s *sender) wakeThreshold(now time.Time) int64 {
	if s.complete || s.streamEnded || s.nextTry.After(now) || s.outdated() || s.isFull() || s.lostAfter > 0 {
		return 1 << 62
	}
	if len(s.ready) > 0 {
		return s.readAt + int64(s.batch-s.pending())
	}
	return s.readAt + 1
}

// readRing reads and masks until a part is full, the ring has lost bytes, or the ring has
// no more.
func (s *sender) readRing(now time.Time) {
	defer func() { s.ring.NoteRead(s.stream, s.readAt) }()
	for !s.isFull() && s.lostAfter == 0 && !s.streamEnded {
		written, ended := s.ring.Written(s.stream)
		most := readSize
		if left := s.batch - s.pending(); left > 0 { // or the masker holds a whole part back
			most = min(most, left)
		}
		if s.secretsReloaded {
			if most = min(most, int(max(s.inspectedUntil-s.readAt, 0))); most == 0 && len(s.ready) == 0 {
				s.secretsReloaded = false // all bytes are held back
				continue
			}
		}
		n, floor := s.ring.Read(s.stream, s.readAt, s.buffer[:most])
		switch {
		case floor > s.readAt:
			s.lostAfter = floor - s.readAt
			s.appendReady(s.maskStream.Gap(s.lostAfter), now)
			s.readAt = floor
		case n > 0:
			s.readAt += int64(n)
			s.appendReady(s.maskStream.Write(s.buffer[:n]), now)
		default:
			if s.streamEnded = ended && written == s.readAt; s.streamEnded {
				s.appendReady(s.maskStream.End(), now)
			}
			return
		}
	}
}

func (s *sender) appendReady(masked []byte, now time.Time) {
	if len(s.ready) == 0 {
		s.readySince = now
	}
	s.ready = append(s.ready, masked...)
}
