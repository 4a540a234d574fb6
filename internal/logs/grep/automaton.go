// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// maxTable bounds the table of an automaton and the sets of its states, in bytes. A table that
// is full is begun anew.
const maxTable = 2 << 20

// An automaton (DFA) reads lines. Its states and the transitions between them are made when
// they are first needed.
//
// A state stands for where in the program a match may be under way, and for what the last
// character was, as far as the program asks for that. A match may begin at each character.
type automaton struct {
	*Expression
	asksForBegin, asksForWords bool

	width int     // of a row of the table: the number of classes
	table []int32 // the next state, by state and class; a state is the place of its row
	sets  []state // by row
	index map[string]int32
	bytes int // that the states take
	begin int32

	// For next:
	seen    []uint64 // the visit of an instruction
	visit   uint64
	pending []uint32
}

// A state has what it stands for.
type state struct {
	at   []uint32 // instructions, sorted, without those of a match that begins
	last rune     // a character like the last one
}

// The other values in a table.
const (
	unknown int32 = 0  // the state is yet to be made; row 0 is of none
	matched int32 = -1 // the line matches
)

func newAutomaton(e *Expression) *automaton {
	a := &automaton{Expression: e, width: len(e.alphabet.sample), seen: make([]uint64, len(e.program.Inst))}
	for i := range e.program.Inst {
		inst := &e.program.Inst[i]
		a.asksForBegin = a.asksForBegin || asksFor(inst, syntax.EmptyBeginLine|syntax.EmptyBeginText)
		a.asksForWords = a.asksForWords || asksFor(inst, syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary)
	}
	a.reset()
	return a
}

// reset drops all states.
func (a *automaton) reset() {
	a.table, a.sets, a.bytes = make([]int32, a.width), []state{{}}, 0
	a.index = map[string]int32{}
	a.begin = a.state(state{last: endOfText})
}

// read reads bytes from a state on. It returns the state behind them, matched as soon as a line
// matches, and how many bytes it has read: without the byte that decided, and without
// characters at the end whose other bytes are to come.
func (a *automaton) read(from int32, text []byte) (to int32, n int) {
	ascii, table := &a.alphabet.ascii, a.table
	for n < len(text) {
		c, size := text[n], 1
		var class uint16
		if c < utf8.RuneSelf {
			class = ascii[c]
		} else {
			if !utf8.FullRune(text[n:]) {
				return from, n
			}
			var r rune
			r, size = utf8.DecodeRune(text[n:])
			class = a.alphabet.classOf(r)
		}
		to := table[int(from)+int(class)]
		if to <= unknown {
			if to == unknown {
				to = a.next(from, class)
				table = a.table
			}
			if to == matched {
				return matched, n
			}
		}
		from = to
		n += size
	}
	return from, n
}

// ends reads the end of a line, and reports whether the line matches.
func (a *automaton) ends(from int32) bool {
	return from == matched || a.next(from, newline) == matched
}

// endsWith is ends for a line with bytes at its end that are no character.
func (a *automaton) endsWith(from int32, rest []byte) bool {
	for range rest {
		if from == matched {
			return true
		}
		from = a.next(from, a.alphabet.classOf(utf8.RuneError))
	}
	return a.ends(from)
}

// matches reports whether a line without a newline matches.
func (a *automaton) matches(line []byte) bool {
	if !bytes.Contains(line, a.literal) {
		return false
	}
	state, n := a.read(a.begin, line)
	return a.endsWith(state, line[n:])
}

// next makes the transition from a state by a class.
func (a *automaton) next(from int32, class uint16) (to int32) {
	before, c := a.sets[int(from)/a.width], a.alphabet.sample[class]
	after := state{last: a.like(c)}
	is := a.follow(before, c, func(at uint32) {
		if inst := &a.program.Inst[at]; inst.MatchRune(c) {
			after.at = append(after.at, inst.Out)
		}
	})
	switch {
	case is:
		to = matched
	case class == newline:
		to = a.begin
	default:
		slices.Sort(after.at)
		after.at = slices.Compact(after.at)
		if a.bytes > maxTable {
			a.reset()
			return a.state(after)
		}
		to = a.state(after)
	}
	a.table[int(from)+int(class)] = to
	return to
}

// like returns a character that is like another one for what comes behind it.
func (a *automaton) like(c rune) rune {
	switch {
	case a.asksForWords && syntax.IsWordChar(c):
		return 'x'
	default:
		return ' '
	}
}

// follow calls each for the instructions that test the next character, and reports whether a
// match ends in front of it.
func (a *automaton) follow(from state, next rune, each func(at uint32)) (isMatch bool) {
	flags := syntax.EmptyOpContext(from.last, next)
	a.visit++
	a.pending = append(append(a.pending[:0], from.at...), uint32(a.program.Start)) //nolint:gosec // G115: at most maxInstructions
	for len(a.pending) > 0 {
		at := a.pending[len(a.pending)-1]
		a.pending = a.pending[:len(a.pending)-1]
		if a.seen[at] == a.visit {
			continue
		}
		a.seen[at] = a.visit
		switch inst := &a.program.Inst[at]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			a.pending = append(a.pending, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			a.pending = append(a.pending, inst.Out)
		case syntax.InstEmptyWidth:
			if inst.Arg&^uint32(flags) == 0 {
				a.pending = append(a.pending, inst.Out)
			}
		case syntax.InstFail:
		default:
			if next != endOfText {
				each(at)
			}
		}
	}
	return false
}

// state returns the place of a state, which it makes if there is none.
func (a *automaton) state(s state) int32 {
	if s.last == endOfText && !a.asksForBegin {
		s.last = a.like(endOfText)
	}
	key := binary.AppendVarint(nil, int64(s.last))
	for _, at := range s.at {
		key = binary.AppendUvarint(key, uint64(at))
	}
	if known, exists := a.index[string(key)]; exists {
		return known
	}
	place := int32(len(a.table)) //nolint:gosec // G115: the table is bounded
	a.index[string(key)] = place
	a.table = append(a.table, make([]int32, a.width)...)
	a.sets = append(a.sets, s)
	a.bytes += 4*a.width + 4*len(s.at) + len(key) + perState
	return place
}

// perState is what a state takes beside its row and its sets, in bytes.
const perState = 128
