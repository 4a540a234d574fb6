// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"unicode/utf8"

	"github.com/entrypointer/entrypointer/internal/printable"
)

const escape = 0x1b

// A token is a piece of what a line shows.
type token struct {
	text    []byte
	style   style
	escaped bool // the text stands for a character that can't be shown
}

// isPlain reports whether a line shows its own bytes, and no other ones.
func isPlain(text []byte) bool {
	for at := 0; at < len(text); {
		if c := text[at]; c < utf8.RuneSelf {
			if c < ' ' && c != '\t' || c == 0x7f {
				return false
			}
			at++
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 || printable.IsUnsafe(r) {
			return false
		}
		at += size
	}
	return true
}

// show passes on what a line shows that begins in a style, and returns the style behind it. As on
// a terminal, SGR sets colours, and a carriage return goes back to the beginning: what it is
// followed by replaces what stood there, so the last text counts. Other control sequences show
// nothing. Invisible characters, controls and invalid UTF-8 are shown escaped.
//
// It returns how many earlier texts were replaced.
func show(line []byte, s style, emit func(token)) (after style, replaced int) {
	line = bytes.TrimRight(line, "\r")
	for {
		end := bytes.IndexByte(line, '\r')
		if end < 0 {
			return showSegment(line, s, emit), replaced
		}
		if end > 0 {
			replaced++
		}
		s = showSegment(line[:end], s, func(token) {})
		line = line[end+1:]
	}
}

func showSegment(text []byte, s style, emit func(token)) style {
	start, at := 0, 0
	flush := func() {
		if at > start {
			emit(token{text[start:at], s, false})
		}
	}
	for at < len(text) {
		c := text[at]
		if c >= ' ' && c < 0x7f || c == '\t' {
			at++
			continue
		}
		if length := sequence(text[at:]); length > 0 {
			flush()
			if text[at+1] == '[' && text[at+length-1] == 'm' {
				s = s.apply(text[at+2 : at+length-1])
			}
			at += length
			start = at
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 || printable.IsUnsafe(r) {
			flush()
			emit(token{[]byte(printable.Line(string(text[at : at+size]))), s, true})
			start = at + size
		}
		at += size
	}
	flush()
	return s
}

// sequence returns the length of the complete control sequence at the beginning of a text, 0 if
// there is none.
func sequence(text []byte) int {
	if len(text) < 2 || text[0] != escape {
		return 0
	}
	switch text[1] {
	case '[':
		return final(text, 2, '0', '?', '@')
	case ']', 'P', 'X', '^', '_':
		return controlString(text)
	default:
		return final(text, 1, 1, 0, '0')
	}
}

// controlString returns the length of a string that ends with ST, or an OSC with BEL.
func controlString(text []byte) int {
	for at := 2; at < len(text); at++ {
		switch {
		case text[at] == 0x07 && text[1] == ']':
			return at + 1
		case text[at] == escape && at+1 < len(text) && text[at+1] == '\\':
			return at + 2
		case text[at] == escape:
			return 0
		}
	}
	return 0
}

// final returns the length of a sequence whose parameters begin at an index and are from first to
// last, followed by intermediate bytes, and by a final one that isn't below the least.
func final(text []byte, at int, first, last, least byte) int {
	for at < len(text) && text[at] >= first && text[at] <= last {
		at++
	}
	for at < len(text) && text[at] >= ' ' && text[at] <= '/' {
		at++
	}
	if at < len(text) && text[at] >= least && text[at] <= '~' {
		return at + 1
	}
	return 0
}

// shown returns the text that a line shows.
func shown(line []byte) []byte {
	var text []byte
	show(line, style{}, func(t token) { text = append(text, t.text...) })
	return text
}

// styleAfter returns the style behind a line.
func styleAfter(line []byte, s style) style {
	if bytes.IndexByte(line, escape) < 0 {
		return s
	}
	s, _ = show(line, s, func(token) {})
	return s
}

// cut returns where to end the first piece of a line that is longer than a piece: between two
// characters, and not in a control sequence.
func cut(text []byte, size int) int {
	end := size
	for end > size-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	if !utf8.RuneStart(text[end]) {
		end = size // no UTF-8
	}
	const longestSequence = 128
	from := max(end-longestSequence, 1)
	begin := bytes.LastIndexByte(text[from:end], escape)
	if begin < 0 {
		return end
	}
	begin += from
	if length := sequence(text[begin:min(end+longestSequence, len(text))]); length > end-begin {
		return begin
	}
	return end
}
