// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package grep finds the lines of a stream of bytes that match a regular expression (RE2,
// the syntax of package regexp).
//
// The bytes come in blocks of any length. An automaton reads each byte once, and its memory
// is bounded, as is that of a line: a line of any length is matched as a whole, and the first
// MaxText bytes of it are shown. If each line that matches must contain certain bytes, the
// lines without them aren't read by the automaton.
package grep

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

const (
	// MaxExpression bounds an expression, in bytes.
	MaxExpression = 1024
	// maxInstructions bounds the program of an expression: where the automaton has to be made
	// anew for each byte, this is what a byte costs.
	maxInstructions = 1000
	// minLiteral is the length from which on required bytes are looked for, in bytes.
	minLiteral = 3
)

// An Expression is a compiled expression. Any number of Scanners may use it at once.
type Expression struct {
	program  *syntax.Prog
	alphabet *alphabet
	literal  []byte // each line that matches contains it; nil if nothing is known
}

// Compile returns an expression. The error says what is wrong with the text, or that it is too
// long.
func Compile(text string, ignoreCase bool) (*Expression, error) {
	if len(text) > MaxExpression {
		return nil, fmt.Errorf("the expression has %d bytes: use %d at most", len(text), MaxExpression)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	parsed, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, err
	}
	literal := required(parsed)
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("the expression %.100q takes %d instructions: use one of %d at most, with fewer or shorter repetitions", text, len(program.Inst), maxInstructions)
	}
	if len(literal) < minLiteral {
		literal = ""
	}
	return &Expression{program, newAlphabet(program), []byte(literal)}, nil
}

// required returns the longest text that is known to be in everything that matches.
func required(r *syntax.Regexp) (longest string) {
	switch r.Op {
	case syntax.OpLiteral:
		if r.Flags&syntax.FoldCase != 0 {
			return ""
		}
		// A byte that isn't UTF-8 matches as U+FFFD does, so that stands for no certain bytes.
		for _, piece := range strings.FieldsFunc(string(r.Rune), func(c rune) bool { return c == utf8.RuneError }) {
			longest = longer(longest, piece)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(r.Sub[0])
	case syntax.OpRepeat:
		if r.Min > 0 {
			return required(r.Sub[0])
		}
	case syntax.OpConcat:
		for _, part := range r.Sub {
			longest = longer(longest, required(part))
		}
	default: // nothing is known
	}
	return longest
}

func longer(a, b string) string {
	if len(b) > len(a) {
		return b
	}
	return a
}
