// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import "bytes"

// A State is where another process can resume a stream without what came before.
type State struct {
	// At is the offset of the first byte that was held back. The stream resumes with this
	// byte.
	At int64
	// MaskedUntil is the end of a secret that began before At, if it is larger than At.
	MaskedUntil int64
	// AfterGap says that the bytes before At were dropped.
	AfterGap bool
}

// A Stream masks one stream.
type Stream struct {
	masker *Masker
	state  State // without AfterGap
	held   []byte
	spare  []byte // the buffer of the bytes that were released last
	node   int32
	// runStart is where the masked bytes begin that end at state.MaskedUntil.
	runStart int64
	// afterGap says that no byte has come since a gap.
	afterGap bool
	// candidates are the positions in secrets at which the bytes since a gap may have ended
	// so far. nil says that these bytes are in no secret.
	candidates []position
	sinceGap   int // the number of bytes since the gap
}

// A position is an offset in a pattern.
type position struct{ pattern, next int32 }

// Stream begins a stream, or resumes one.
func (m *Masker) Stream(from State) *Stream {
	return &Stream{masker: m, state: State{At: from.At, MaskedUntil: from.MaskedUntil}, runStart: from.At, afterGap: from.AfterGap}
}

// State returns where to resume the stream once all released bytes are stored.
func (s *Stream) State() State {
	state := s.state
	state.AfterGap = s.afterGap || s.candidates != nil
	return state
}

// Write adds bytes to the stream, and returns those that are released. The slice is valid
// until the next call.
func (s *Stream) Write(data []byte) []byte {
	m := s.masker
	for len(data) > 0 {
		if plain := s.plainPrefix(data); plain > 0 {
			s.held, data = append(s.held, data[:plain]...), data[plain:]
			continue
		}
		b := data[0]
		data = data[1:]
		s.held = append(s.held, b)
		if s.state.At+int64(len(s.held)) <= s.state.MaskedUntil {
			s.held[len(s.held)-1] = '*'
		}
		s.node = m.step(s.node, b)
		s.maskLast(int(m.nodes[s.node].match))
		if s.afterGap || s.candidates != nil {
			s.followCandidates(b)
		}
	}
	if s.candidates != nil {
		return nil
	}
	return s.release(len(s.held) - int(m.nodes[s.node].depth))
}

// plainPrefix returns how many of the next bytes are certainly in no secret. It is a fast
// path for most of a stream.
func (s *Stream) plainPrefix(data []byte) int {
	if s.node != 0 || s.afterGap || s.candidates != nil || s.state.At+int64(len(s.held)) < s.state.MaskedUntil {
		return 0
	}
	m := s.masker
	for i, b := range data {
		if child := m.rootChildren[b]; child != 0 && (i+1 == len(data) || m.child(child, data[i+1]) != 0) {
			return i
		}
	}
	return len(data)
}

// Gap notes that the next bytes were dropped. It releases all bytes that were held back.
func (s *Stream) Gap(length int64) []byte {
	if s.candidates != nil {
		// All bytes since the former gap may be in the middle of a secret.
		s.maskLast(len(s.held))
	}
	s.maskLast(int(s.masker.nodes[s.node].depth))
	passed := s.release(len(s.held))
	s.state.At += length
	s.runStart, s.node, s.afterGap, s.candidates, s.sinceGap = s.state.At, 0, true, nil, 0
	return passed
}

// End releases the rest of the stream. It is the last call.
func (s *Stream) End() []byte {
	if depth := int(s.masker.nodes[s.node].depth); depth >= minPartial {
		s.maskLast(depth)
	}
	if s.candidates != nil && s.sinceGap >= minPartial {
		s.maskLast(len(s.held))
	}
	return s.release(len(s.held))
}

// maskLast masks the last bytes of the stream, which are all held back.
func (s *Stream) maskLast(count int) {
	if count <= 0 {
		return
	}
	to := s.state.At + int64(len(s.held))
	from := to - int64(count)
	if until := s.state.MaskedUntil; from > until {
		s.asterisks(from, to)
		s.runStart = from
	} else {
		// Skip what is masked already: in "aaaa...", a secret may end with each byte.
		s.asterisks(from, s.runStart)
		s.asterisks(until, to)
		s.runStart = min(s.runStart, from)
	}
	s.state.MaskedUntil = max(s.state.MaskedUntil, to)
}

// asterisks masks a range of offsets.
func (s *Stream) asterisks(from, to int64) {
	for at := from; at < to; at++ {
		s.held[at-s.state.At] = '*'
	}
}

// release returns the first of the bytes that were held back.
func (s *Stream) release(count int) []byte {
	if count <= 0 {
		return nil
	}
	passed := s.held[:count]
	s.held, s.spare = append(s.spare[:0], s.held[count:]...), s.held
	s.state.At += int64(count)
	return passed
}

// positions returns the position behind each occurrence of a byte in the patterns.
func (m *Masker) positions(b byte) (list []position) {
	for pattern, text := range m.patterns {
		for at := 0; ; {
			i := bytes.IndexByte(text[at:], b)
			if i < 0 {
				break
			}
			at += i + 1
			list = append(list, position{int32(pattern), int32(at)}) //nolint:gosec // as in add
		}
	}
	return list
}

// followCandidates keeps the candidates that continue with a byte. If a candidate reaches
// the end of its secret, all bytes since the gap may be the rest of that secret.
func (s *Stream) followCandidates(b byte) {
	s.sinceGap++
	kept := s.candidates[:0]
	if s.afterGap {
		s.afterGap = false
		for _, p := range s.masker.positions(b) {
			kept = s.keepCandidate(kept, p)
		}
	}
	for _, p := range s.candidates {
		if s.masker.patterns[p.pattern][p.next] == b {
			p.next++
			kept = s.keepCandidate(kept, p)
		}
	}
	if s.candidates = kept; len(kept) == 0 {
		s.candidates = nil
	}
}

// keepCandidate adds a position, unless it is the end of its secret.
func (s *Stream) keepCandidate(kept []position, p position) []position {
	if int(p.next) < len(s.masker.patterns[p.pattern]) {
		return append(kept, p)
	}
	s.maskLast(s.sinceGap)
	return kept
}
