// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"bytes"
	"unicode/utf8"
)

const (
	// MaxText bounds the text of a line that is shown, in bytes.
	MaxText = 64 << 10
	// maxAround bounds what is kept for the lines in front of another one, in bytes.
	maxAround = 128 << 10
	// compactFrom is the length of the buffer from which on read bytes are dropped, in bytes.
	compactFrom = 512 << 10
)

// A Line is a line that matches, or one near it.
type Line struct {
	// From is the offset of the first byte, To that behind the last one, which may be a
	// newline.
	From, To int64
	// Text is the line without its newline, and of a longer one the first MaxText bytes. It is
	// valid until found returns.
	Text  []byte
	Match bool
}

// IsCut reports whether Text lacks the end of the line.
func (l Line) IsCut() bool { return int64(len(l.Text))+1 < l.To-l.From }

// A Scanner finds lines in a stream. It isn't safe for concurrent use.
type Scanner struct {
	automaton     *automaton
	before, after int
	found         func(Line) error

	buffer  []byte
	at      int64 // the offset of the buffer
	line    int   // where the unfinished line begins in the buffer
	shownTo int64 // the offset behind the last line that was found
	owed    int   // how many lines are still to be shown behind it

	isLong  bool   // the unfinished line is longer than MaxText, and the buffer ends with its beginning
	state   int32  // of the automaton, behind the bytes of a long line
	partial []byte // the bytes of a long line that are part of a character
	readTo  int64  // the offset behind the bytes of a long line
}

// NewScanner returns a scanner that calls found for each line that matches, with as many lines
// before and after it, in their order, and each once. An error of found ends the scan, and is
// returned.
func NewScanner(e *Expression, before, after int, found func(Line) error) *Scanner {
	return &Scanner{automaton: newAutomaton(e), before: before, after: after, found: found}
}

// Write scans bytes of a stream. If they don't begin where the last ones ended, a line ends
// there, and what was before isn't shown any more.
func (s *Scanner) Write(from int64, data []byte) error {
	if from != s.end() {
		if err := s.Break(); err != nil {
			return err
		}
		s.at = from
	}
	if s.isLong {
		rest, err := s.continueLong(data)
		if err != nil || s.isLong {
			return err
		}
		data = rest
	}
	s.compact(len(data))
	had := len(s.buffer)
	s.buffer = append(s.buffer, data...)
	if last := bytes.LastIndexByte(data, '\n'); last >= 0 {
		to := had + last + 1
		if err := s.lines(s.line, to); err != nil {
			return err
		}
		s.line = to
	}
	if len(s.buffer)-s.line > MaxText {
		s.beginLong()
	}
	return nil
}

// Break ends the unfinished line, and forgets the lines before: the stream ends here, or
// lacks bytes.
func (s *Scanner) Break() error {
	var err error
	switch {
	case s.isLong:
		_, err = s.endLong(s.readTo)
	case s.line < len(s.buffer):
		line := s.buffer[s.line:]
		err = s.report(s.line, Line{From: s.offset(s.line), To: s.end(), Text: line, Match: s.automaton.matches(line)})
	}
	s.at, s.shownTo = s.end(), 0
	s.buffer, s.line, s.owed = s.buffer[:0], 0, 0
	return err
}

// HeldFrom is the offset from which on lines may still be found.
func (s *Scanner) HeldFrom() int64 { return s.at }

func (s *Scanner) offset(place int) int64 { return s.at + int64(place) }

// end is the offset behind the last byte.
func (s *Scanner) end() int64 {
	if s.isLong {
		return s.readTo
	}
	return s.offset(len(s.buffer))
}

// compact makes room for more bytes.
func (s *Scanner) compact(more int) {
	if len(s.buffer)+more <= compactFrom {
		return
	}
	keep := s.around(s.line, s.before)
	s.at += int64(keep)
	s.buffer = append(s.buffer[:0], s.buffer[keep:]...)
	s.line -= keep
}

// around returns where the lines in front of a line begin: some lines, of maxAround at most.
func (s *Scanner) around(line, count int) int {
	least := max(0, line-maxAround)
	for ; count > 0 && line > 0; count-- {
		begin := bytes.LastIndexByte(s.buffer[:line-1], '\n') + 1
		if begin < least {
			break
		}
		line = begin
	}
	return line
}

// lines scans the whole lines in a part of the buffer.
func (s *Scanner) lines(from, to int) error {
	for from < to {
		line, next := s.search(from, to)
		if err := s.payTo(line); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		if err := s.report(line, Line{From: s.offset(line), To: s.offset(next), Text: s.buffer[line : next-1], Match: true}); err != nil {
			return err
		}
		from = next
	}
	return nil
}

// search returns where the first line that matches begins, and where the line behind it does.
// Without one, it returns to, and 0.
func (s *Scanner) search(from, to int) (line, next int) {
	if s.automaton.literal == nil {
		state, n := s.automaton.read(s.automaton.begin, s.buffer[from:to])
		if state != matched {
			return to, 0
		}
		return s.lineAt(from, from+n)
	}
	for from < to {
		i := bytes.Index(s.buffer[from:to], s.automaton.literal)
		if i < 0 {
			break
		}
		line, next = s.lineAt(from, from+i)
		if state, _ := s.automaton.read(s.automaton.begin, s.buffer[line:next]); state == matched {
			return line, next
		}
		from = next
	}
	return to, 0
}

// lineAt returns where the line of a byte begins, no earlier than from, and where the next one
// does.
func (s *Scanner) lineAt(from, place int) (line, next int) {
	line = from + bytes.LastIndexByte(s.buffer[from:place], '\n') + 1
	return line, place + bytes.IndexByte(s.buffer[place:], '\n') + 1
}

// payTo shows the lines that are owed, up to a place in the buffer.
func (s *Scanner) payTo(to int) error {
	for s.owed > 0 && s.shownTo < s.offset(to) {
		line := int(s.shownTo - s.at)
		end := bytes.IndexByte(s.buffer[line:to], '\n')
		if end < 0 {
			return nil // the line isn't whole yet
		}
		s.owed--
		if err := s.show(Line{From: s.shownTo, To: s.shownTo + int64(end) + 1, Text: s.buffer[line : line+end]}); err != nil {
			return err
		}
	}
	return nil
}

// report shows a line that matches, at a place in the buffer, with those in front of it; or
// one that doesn't if it is owed.
func (s *Scanner) report(place int, l Line) error {
	if !l.Match {
		if s.owed == 0 {
			return nil
		}
		s.owed--
		return s.show(l)
	}
	for line := max(s.around(place, s.before), int(s.shownTo-s.at)); line < place; {
		end := line + bytes.IndexByte(s.buffer[line:], '\n')
		if err := s.show(Line{From: s.offset(line), To: s.offset(end + 1), Text: s.buffer[line:end]}); err != nil {
			return err
		}
		line = end + 1
	}
	s.owed = s.after
	return s.show(l)
}

func (s *Scanner) show(l Line) error {
	l.Text = l.Text[:min(len(l.Text), MaxText)]
	s.shownTo = l.To
	return s.found(l)
}

// beginLong drops the unfinished line, but for its beginning.
func (s *Scanner) beginLong() {
	s.isLong, s.readTo = true, s.offset(len(s.buffer))
	s.state, s.partial = s.automaton.begin, s.partial[:0]
	s.readLong(s.buffer[s.line:])
	s.buffer = s.buffer[:s.line+MaxText]
}

// readLong reads more bytes of a long line.
func (s *Scanner) readLong(text []byte) {
	if len(s.partial) > 0 { // its last bytes come first
		more := min(utf8.UTFMax, len(text))
		var n int
		had := len(s.partial)
		s.partial = append(s.partial, text[:more]...)
		if s.state, n = s.automaton.read(s.state, s.partial); s.state == matched {
			return
		}
		if n < had {
			s.partial = append(s.partial[:0], s.partial[n:]...) // all that there is
			return
		}
		s.partial, text = s.partial[:0], text[n-had:]
	}
	if s.state == matched {
		return
	}
	var n int
	s.state, n = s.automaton.read(s.state, text)
	if s.state != matched {
		s.partial = append(s.partial[:0], text[n:]...)
	}
}

// continueLong reads the rest of a long line, and returns what is behind it.
func (s *Scanner) continueLong(data []byte) (rest []byte, err error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		s.readLong(data)
		s.readTo += int64(len(data))
		return nil, nil
	}
	s.readLong(data[:end])
	to, err := s.endLong(s.readTo + int64(end) + 1)
	s.at, s.buffer, s.line = to, s.buffer[:0], 0
	return data[end+1:], err
}

// endLong reports a long line, which ends in front of an offset.
func (s *Scanner) endLong(to int64) (int64, error) {
	s.isLong = false
	is := s.automaton.endsWith(s.state, s.partial)
	return to, s.report(s.line, Line{From: s.offset(s.line), To: to, Text: s.buffer[s.line:], Match: is})
}
