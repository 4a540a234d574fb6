// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package mask

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
	// ends are the places in secrets where the bytes since a gap may be: what comes
	// next in each of them. There are none once the bytes are in no secret.
	ends     []place
	sinceGap int // how many bytes that are
}

// A place is in a secret.
type place struct{ word, next int32 }

// Stream begins one, or takes one up.
func (m *Masker) Stream(from State) *Stream {
	s := &Stream{masker: m, state: State{At: from.At, MaskedUntil: from.MaskedUntil}}
	if from.AfterGap {
		s.beginAfterGap()
	}
	return s
}

// State is where to take the stream up if what was passed on until now is kept.
func (s *Stream) State() State {
	state := s.state
	state.AfterGap = s.ends != nil
	return state
}

// Write takes what comes next, and passes on what can be let through. The slice is
// good until the next call.
func (s *Stream) Write(data []byte) []byte {
	m := s.masker
	for _, b := range data {
		s.held = append(s.held, b)
		if s.state.At+int64(len(s.held)) <= s.state.MaskedUntil {
			s.held[len(s.held)-1] = '*'
		}
		s.node = m.step(s.node, b)
		s.maskLast(int(m.nodes[s.node].match))
		if s.ends != nil {
			s.follow(b)
		}
	}
	if s.ends != nil {
		return nil
	}
	return s.pass(len(s.held) - int(m.nodes[s.node].depth))
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
	s.beginAfterGap()
	return passed
}

// End passes on the rest of the stream.
func (s *Stream) End() []byte {
	if depth := int(s.masker.nodes[s.node].depth); depth >= usable {
		s.maskLast(depth)
	}
	if s.ends != nil && s.sinceGap >= usable {
		s.maskLast(len(s.held))
	}
	s.node, s.ends = 0, nil
	return s.pass(len(s.held))
}

// maskLast writes over the last bytes that came. They are all held back.
func (s *Stream) maskLast(count int) {
	for i := len(s.held) - count; i < len(s.held); i++ {
		s.held[i] = '*'
	}
	if count > 0 {
		s.state.MaskedUntil = max(s.state.MaskedUntil, s.state.At+int64(len(s.held)))
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

// beginAfterGap begins in the midst of any secret.
func (s *Stream) beginAfterGap() {
	s.node, s.sinceGap, s.ends = 0, 0, []place{}
	for word := range s.masker.words {
		for next := range s.masker.words[word] {
			s.ends = append(s.ends, place{int32(word), int32(next)}) //nolint:gosec // as in add
		}
	}
	if len(s.ends) == 0 {
		s.ends = nil
	}
}

// follow keeps the places that go on with a byte. Where a secret ends, all bytes
// since the gap may have been the rest of it.
func (s *Stream) follow(b byte) {
	s.sinceGap++
	kept := s.ends[:0]
	for _, p := range s.ends {
		word := s.masker.words[p.word]
		if word[p.next] != b {
			continue
		}
		if p.next++; int(p.next) == len(word) {
			s.maskLast(s.sinceGap)
		} else {
			kept = append(kept, p)
		}
	}
	if s.ends = kept; len(kept) == 0 {
		s.ends = nil
	}
}
