// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/grep"
)

const (
	// longestQuery bounds what is searched for, in bytes. A text of that length is an expression
	// that package grep takes, whatever its characters.
	longestQuery = 900
	// mostFound bounds the lines that one request finds, and mostMarked what is marked in one.
	mostFound, mostMarked = 1000, 200
	// searchTime bounds the time of one request. The next one goes on where it ended.
	searchTime = time.Second
	// overlap is how much of a piece of a long line is looked at again with the next piece, in
	// bytes, for an expression.
	overlap = 256
)

// A query is what is searched for: an expression, or a text.
type query struct {
	expression *regexp.Regexp // finds what to mark; nil for a text
	lines      *grep.Matcher  // finds the lines of an expression, and reads each byte once
	text       []byte         // in lower case if the case is ignored
	ignoreCase bool
	lower      []byte // scratch
}

// newQuery returns a query; nil for an empty text.
func newQuery(text string, isExpression, matchCase bool) (*query, error) {
	if len(text) > longestQuery {
		return nil, fmt.Errorf("searching for a text of %d bytes: use at most %d", len(text), longestQuery)
	}
	if text == "" {
		return nil, nil //nolint:nilnil // no query
	}
	if !isExpression && (matchCase || isASCII(text)) {
		q := &query{text: []byte(text), ignoreCase: !matchCase}
		if q.ignoreCase {
			q.text = lowered(nil, q.text)
		}
		return q, nil
	}
	if !isExpression {
		text = regexp.QuoteMeta(text)
	}
	compiled, err := grep.Compile(text, !matchCase)
	if _, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("searching: %w: use the syntax of RE2, or search for a text", err)
	}
	if err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	if !matchCase {
		text = "(?i)" + text
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("searching: %w", err)
	}
	return &query{expression: expression, lines: grep.NewMatcher(compiled)}, nil
}

func isASCII(text string) bool {
	for _, r := range text {
		if r > 0x7f {
			return false
		}
	}
	return true
}

// lowered appends a text, with the letters of ASCII in lower case, so its offsets stay.
func lowered(to, text []byte) []byte {
	from := len(to)
	to = append(to, text...)
	for at, c := range to[from:] {
		if c-'A' < 26 {
			to[from+at] = c + 'a' - 'A'
		}
	}
	return to
}

// fold returns a text as it is compared with that of the query.
func (q *query) fold(text []byte) []byte {
	if !q.ignoreCase {
		return text
	}
	q.lower = lowered(q.lower[:0], text)
	return q.lower
}

func (q *query) has(text []byte) bool {
	if q.expression != nil {
		return q.lines.Matches(text)
	}
	return bytes.Contains(q.fold(text), q.text)
}

// mayHave reports whether a run of plain records can have what is searched for.
func (q *query) mayHave(records []byte) bool {
	return q.expression != nil || bytes.Contains(q.fold(records), q.text)
}

// tail returns the end of a piece of a line that is looked at again with the next one.
func (q *query) tail(text []byte) []byte {
	again := overlap
	if q.expression == nil {
		again = len(q.text) - 1
	}
	return text[max(0, len(text)-again):]
}

// all returns the ranges of a text that match and aren't empty.
func (q *query) all(text []byte) (found [][2]int) {
	if q.expression != nil {
		for _, is := range q.expression.FindAllIndex(text, mostMarked) {
			if is[0] < is[1] {
				found = append(found, [2]int{is[0], is[1]})
			}
		}
		return found
	}
	folded := q.fold(text)
	for at := 0; len(found) < mostMarked; {
		next := bytes.Index(folded[at:], q.text)
		if next < 0 {
			break
		}
		found = append(found, [2]int{at + next, at + next + len(q.text)})
		at += next + len(q.text)
	}
	return found
}

// A match is a record that matches.
type match struct {
	Line  int   `json:"line"`            // the number of the record
	Folds []int `json:"folds,omitempty"` // those around it
}

// search returns the records of a view that match, from one on up to another, and the one from
// which on to continue. The index must not be locked.
func (v *view) search(ctx context.Context, q *query, from, to int) (found []match, next int, err error) {
	s := &searching{view: v, query: q, from: from, tails: map[int][]byte{}}
	until := time.Now().Add(searchTime)
	enough := func() bool {
		return s.from >= to || len(s.found) == mostFound || ctx.Err() != nil || s.from > from && time.Now().After(until)
	}
	// The piece before the first record may be that of a line which goes on.
	at := max(from-blockRecords, 0)
	for !enough() {
		b, is, err := s.load(at)
		if err != nil {
			return nil, 0, err
		}
		if !is {
			break
		}
		s.block(&b, enough)
		at = b.first + b.records
	}
	return s.found, s.from, ctx.Err()
}

// A searching is a search. It locks the index to read a block, and not to search it.
type searching struct {
	*view
	query  *query
	from   int // the first record that wasn't searched
	found  []match
	buffer []byte
	tails  map[int][]byte // the ends of the pieces that go on, by stream
}

// load reads the block of a record.
func (s *searching) load(record int) (b block, is bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if record >= s.records {
		return b, false, nil
	}
	at := s.blockOf(record)
	s.buffer, err = s.read(at, s.buffer)
	return *s.index.block(at), true, err
}

// block searches a block until that is enough.
func (s *searching) block(b *block, enough func() bool) {
	if end := b.first + b.records; b.allPlain && !b.pieces && s.from >= b.first && !s.query.mayHave(s.buffer) {
		s.from = max(s.from, end) // the tails stay those of streams that it doesn't have
		return
	}
	var r record
	for n, rest := b.first, s.buffer; len(rest) > 0; n++ {
		rest = r.next(rest)
		is := s.record(&r)
		if n < s.from {
			continue // only its tail counts
		}
		if enough() {
			return
		}
		s.from = n + 1
		if is {
			s.found = append(s.found, match{n, s.foldsAround(r.fold)})
		}
	}
}

func (s *searching) foldsAround(fold int) []int {
	if fold <= neverShown {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.around(fold)
}

// record reports whether a record matches.
func (s *searching) record(r *record) (is bool) {
	if r.flags&isGap != 0 || s.hidden[r.stream] || r.fold == neverShown {
		delete(s.tails, r.stream)
		return false
	}
	text := r.shown()
	tail, goesOn := s.tails[r.stream]
	if goesOn && r.flags&isPiece != 0 {
		text = append(tail, text...)
	}
	is = s.query.has(text)
	if r.flags&unended != 0 {
		s.tails[r.stream] = append([]byte(nil), s.query.tail(text)...)
	} else if goesOn {
		delete(s.tails, r.stream)
	}
	return is
}
