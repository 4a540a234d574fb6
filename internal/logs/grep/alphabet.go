// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

// An alphabet groups characters to classes: a program can't tell those of a class apart.
type alphabet struct {
	ascii  [utf8.RuneSelf]uint16 // the class of each
	starts []rune                // of ranges of characters, sorted; the first is 0
	class  []uint16              // of each range
	sample []rune                // a character of each class; that of newline is endOfText
}

const (
	// newline is the class of the end of a line, and so of the character.
	newline = 0
	// endOfText is how package syntax calls what is in front of a text, and behind it.
	endOfText rune = -1
)

// newAlphabet returns the alphabet of a program.
func newAlphabet(program *syntax.Prog) *alphabet {
	var tests []*syntax.Inst // of characters, each kind once
	known := map[string]bool{}
	bounds := []rune{0}
	bound := func(first, last rune) { bounds = append(bounds, first, last+1) }
	hasWords := false
	for i := range program.Inst {
		inst := &program.Inst[i]
		switch inst.Op {
		case syntax.InstEmptyWidth:
			hasWords = hasWords || asksFor(inst, syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if kind := kindOf(inst); !known[kind] {
				known[kind] = true
				tests = append(tests, inst)
				boundsOf(inst, bound)
			}
		default: // it tests no character
		}
	}
	if hasWords {
		for _, of := range []string{"09", "AZ", "__", "az"} {
			bound(rune(of[0]), rune(of[1]))
		}
	}
	slices.Sort(bounds)
	a := &alphabet{starts: slices.Compact(bounds), sample: []rune{endOfText}}
	classes := map[string]uint16{} // by what the tests say
	for _, start := range a.starts {
		said := make([]byte, len(tests)+1)
		for i, inst := range tests {
			said[i] = asByte(inst.MatchRune(start))
		}
		said[len(tests)] = asByte(hasWords && syntax.IsWordChar(start))
		class, exists := classes[string(said)]
		if !exists {
			class = uint16(len(a.sample)) //nolint:gosec // G115: an expression has no more classes than bytes, twice
			classes[string(said)] = class
			a.sample = append(a.sample, start)
		}
		a.class = append(a.class, class)
	}
	for c := range a.ascii {
		a.ascii[c] = a.classOf(rune(c))
	}
	a.ascii['\n'] = newline
	return a
}

// asksFor reports whether an instruction asks for one of some conditions.
func asksFor(inst *syntax.Inst, conditions syntax.EmptyOp) bool {
	return inst.Op == syntax.InstEmptyWidth && inst.Arg&uint32(conditions) != 0
}

// kindOf returns the same for instructions that test for the same characters.
func kindOf(inst *syntax.Inst) string {
	kind := binary.AppendUvarint([]byte{byte(inst.Op)}, uint64(inst.Arg))
	for _, r := range inst.Rune {
		kind = binary.AppendVarint(kind, int64(r))
	}
	return string(kind)
}

// boundsOf calls bound for ranges of characters: what the instruction says changes only at
// their bounds.
func boundsOf(inst *syntax.Inst, bound func(first, last rune)) {
	switch {
	case inst.Op == syntax.InstRuneAny:
	case inst.Op == syntax.InstRuneAnyNotNL:
		bound('\n', '\n')
	case len(inst.Rune) == 1:
		first := inst.Rune[0]
		bound(first, first)
		for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
			bound(r, r)
		}
	default:
		for i := 0; i+1 < len(inst.Rune); i += 2 {
			bound(inst.Rune[i], inst.Rune[i+1])
		}
	}
}

func asByte(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// classOf returns the class of a character.
func (a *alphabet) classOf(r rune) uint16 {
	return a.class[sort.Search(len(a.starts), func(i int) bool { return a.starts[i] > r })-1]
}
