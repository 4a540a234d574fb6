// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

import "bytes"

// A State is where a stream can be taken up again, by a process that has read
// nothing of it.
type State struct {
	// At is the offset of the first byte that was held back, to be written again.
	At int64
	// MaskedUntil is the offset up to which bytes belong to a secret that began
	// before At.
	MaskedUntil int64
	// AfterGap says that the bytes before At were dropped.
	AfterGap bool
}

// A Stream masks one stream.
type Stream struct {
	masker *Masker
	state  State // but for AfterGap
	held   []byte
	spare  []byte // has what was passed on last
	node   int32
	// run is where the last bytes begin that were masked in one go, which end at
	// state.MaskedUntil.
	run int64
	// afterGap says that nothing has come since a gap.
	afterGap bool
	// ends are the places in secrets where the bytes since a gap may be: what comes
	// next in each of them. There are none once the bytes are in no secret.
	ends     []place
	sinceGap int // how many bytes that are
}

// A place is in a secret.
type place struct{ word, next int32 }

// Stream begins one, or takes one up.
func (m *Masker) Stream(from State) *Stream {
	return &Stream{masker: m, state: State{At: from.At, MaskedUntil: from.MaskedUntil}, run: from.At, afterGap: from.AfterGap}
}

// State is where to take the stream up if what was passed on until now is kept.
func (s *Stream) State() State {
	state := s.state
	state.AfterGap = s.afterGap || s.ends != nil
	return state
}

// Write takes what comes next, and passes on what can be let through. The slice is
// good until the next call.
func (s *Stream) Write(data []byte) []byte {
	m := s.masker
	for len(data) > 0 {
		if plain := s.plain(data); plain > 0 {
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
		if s.afterGap || s.ends != nil {
			s.follow(b)
		}
	}
	if s.ends != nil {
		return nil
	}
	return s.pass(len(s.held) - int(m.nodes[s.node].depth))
}

// plain is how many of the next bytes are in no secret and begin none. Most are.
func (s *Stream) plain(data []byte) int {
	if s.node != 0 || s.afterGap || s.ends != nil || s.state.At+int64(len(s.held)) < s.state.MaskedUntil {
		return 0
	}
	m := s.masker
	for i, b := range data {
		if one := m.first[b]; one != 0 && (i+1 == len(data) || m.child(one, data[i+1]) != 0) {
			return i
		}
	}
	return len(data)
}

// Gap says that the next bytes were dropped, and how many. It passes on all that
// was held back.
func (s *Stream) Gap(length int64) []byte {
	if s.ends != nil {
		// All since the gap before is in the midst of a secret.
		s.maskLast(len(s.held))
	}
	s.maskLast(int(s.masker.nodes[s.node].depth))
	passed := s.pass(len(s.held))
	s.state.At += length
	s.run, s.node, s.afterGap, s.ends, s.sinceGap = s.state.At, 0, true, nil, 0
	return passed
}

// End passes on the rest of the stream. It is the last call.
func (s *Stream) End() []byte {
	if depth := int(s.masker.nodes[s.node].depth); depth >= usable {
		s.maskLast(depth)
	}
	if s.ends != nil && s.sinceGap >= usable {
		s.maskLast(len(s.held))
	}
	return s.pass(len(s.held))
}

// maskLast writes over the last bytes that came. They are all held back.
func (s *Stream) maskLast(count int) {
	if count <= 0 {
		return
	}
	to := s.state.At + int64(len(s.held))
	from := to - int64(count)
	if until := s.state.MaskedUntil; from > until {
		s.asterisks(from, to)
		s.run = from
	} else {
		// Of what is masked already, nothing is written again: a secret that repeats
		// itself ends with each of its bytes.
		s.asterisks(from, s.run)
		s.asterisks(until, to)
		s.run = min(s.run, from)
	}
	s.state.MaskedUntil = max(s.state.MaskedUntil, to)
}

// asterisks writes them from an offset up to another.
func (s *Stream) asterisks(from, to int64) {
	for at := from; at < to; at++ {
		s.held[at-s.state.At] = '*'
	}
}

// pass lets the first bytes go of those that are held back.
func (s *Stream) pass(count int) []byte {
	if count <= 0 {
		return nil
	}
	passed := s.held[:count]
	s.held, s.spare = append(s.spare[:0], s.held[count:]...), s.held
	s.state.At += int64(count)
	return passed
}

// places are where a byte is in the secrets, and what comes next.
func (m *Masker) places(b byte) (list []place) {
	for word, text := range m.words {
		for at := 0; ; {
			i := bytes.IndexByte(text[at:], b)
			if i < 0 {
				break
			}
			at += i + 1
			list = append(list, place{int32(word), int32(at)}) //nolint:gosec // as in add
		}
	}
	return list
}

// follow keeps the places that go on with a byte. Where a secret ends, all bytes
// since the gap may have been the rest of it.
func (s *Stream) follow(b byte) {
	s.sinceGap++
	kept := s.ends[:0]
	if s.afterGap {
		s.afterGap = false
		for _, p := range s.masker.places(b) {
			kept = s.keep(kept, p)
		}
	}
	for _, p := range s.ends {
		if s.masker.words[p.word][p.next] == b {
			p.next++
			kept = s.keep(kept, p)
		}
	}
	if s.ends = kept; len(kept) == 0 {
		s.ends = nil
	}
}

// keep adds a place, unless the secret has ended there.
func (s *Stream) keep(kept []place, p place) []place {
	if int(p.next) < len(s.masker.words[p.word]) {
		return append(kept, p)
	}
	s.maskLast(s.sinceGap)
	return kept
}
