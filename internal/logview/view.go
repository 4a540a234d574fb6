// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"math"
)

// A view is what a browser shows of an index: rows, which are the records of the streams that
// aren't hidden, without those in closed folds. Merged, they are in the order of the index;
// apart, they are in parts, one for each container, each with a row as its title.
//
// The methods of a view require the index to be locked for reading.
type view struct {
	*index
	hidden map[int]bool // streams
	// unfolded opens all folds but those of long lines, and those that are in closed. Those that
	// are in opened are open in any case.
	unfolded       bool
	opened, closed map[int]bool
	apart          bool
}

// A part is the streams that a view shows merged.
type part struct {
	title   string // "" for no row
	streams []bool
	rows    int
}

// isOpen reports whether a fold is open, and those around it.
func (v *view) isOpen(at int) bool {
	for at > neverShown {
		f := &v.folds[at]
		if !v.opened[at] && (!v.unfolded || f.longLine || v.closed[at]) {
			return false
		}
		at = f.parent
	}
	return at == 0
}

// opens returns for each fold whether it is open.
func (v *view) opens() []bool {
	open := make([]bool, len(v.folds))
	for at := range open {
		open[at] = v.isOpen(at)
	}
	return open
}

// A layout is the parts of a view, with the numbers of their rows.
type layout struct {
	*view
	parts []part
	open  []bool // folds
}

func (v *view) layout() *layout {
	l := &layout{view: v, open: v.opens()}
	byTitle := map[string]int{}
	for at, s := range v.streams {
		title := ""
		if v.apart {
			title = s.label
		}
		p, is := byTitle[title]
		if !is {
			p = len(l.parts)
			byTitle[title] = p
			l.parts = append(l.parts, part{title: title, streams: make([]bool, len(v.streams))})
		}
		l.parts[p].streams[at] = !v.hidden[at]
	}
	for at := range l.parts {
		p := &l.parts[at]
		for b := range v.blockCount() {
			p.rows += l.rowsOf(p, v.block(b))
		}
		if p.title != "" {
			p.rows++
		}
	}
	return l
}

// rowsOf returns how many records of a block a part shows.
func (l *layout) rowsOf(p *part, b *block) (rows int) {
	for _, c := range b.counts {
		if p.streams[c.stream] && l.open[c.fold] {
			rows += c.records
		}
	}
	return rows
}

func (l *layout) shows(p *part, r *record) bool { return p.streams[r.stream] && l.open[r.fold] }

func (l *layout) rows() (rows int) {
	for at := range l.parts {
		rows += l.parts[at].rows
	}
	return rows
}

// A row is a record, or the title of a part.
type row struct {
	record

	number int // of the record
	title  string
}

// each calls emit for the rows from one on, until it returns false.
func (l *layout) each(from int, emit func(row) bool) error {
	for at := range l.parts {
		p := &l.parts[at]
		if from >= p.rows {
			from -= p.rows
			continue
		}
		if more, err := l.eachOf(p, from, emit); !more || err != nil {
			return err
		}
		from = 0
	}
	return nil
}

func (l *layout) eachOf(p *part, skip int, emit func(row) bool) (more bool, err error) {
	if p.title != "" {
		if skip == 0 {
			if !emit(row{title: p.title, number: -1}) {
				return false, nil
			}
		} else {
			skip--
		}
	}
	var buffer []byte
	for at := range l.blockCount() {
		b := l.block(at)
		rows := l.rowsOf(p, b)
		if skip >= rows { // also those without any
			skip -= rows
			continue
		}
		if buffer, err = l.read(at, buffer); err != nil {
			return false, err
		}
		r := row{number: b.first}
		for rest := buffer; len(rest) > 0; r.number++ {
			rest = r.next(rest)
			if !l.shows(p, &r.record) {
				continue
			}
			if skip > 0 {
				skip--
				continue
			}
			if !emit(r) {
				return false, nil
			}
		}
	}
	return true, nil
}

// rowOf returns the row that shows a record, or the nearest one before that is shown.
func (l *layout) rowOf(number int) (int, error) {
	number = min(number, l.records-1)
	if number < 0 {
		return 0, nil
	}
	own, err := l.record(number)
	if err != nil {
		return 0, err
	}
	row := 0
	for at := range l.parts {
		p := &l.parts[at]
		if !p.streams[own.stream] && (at < len(l.parts)-1 && l.apart) {
			row += p.rows
			continue
		}
		if p.title != "" {
			row++
		}
		before, err := l.rowsBefore(p, number+1)
		return max(row+before-1, 0), err
	}
	return 0, nil
}

// rowsBefore returns how many of the first records a part shows.
func (l *layout) rowsBefore(p *part, records int) (rows int, err error) {
	for at := range l.blockCount() {
		b := l.block(at)
		if b.first+b.records <= records {
			rows += l.rowsOf(p, b)
			continue
		}
		block, err := l.read(at, nil)
		if err != nil {
			return 0, err
		}
		var r record
		for n := b.first; n < records; n++ {
			block = r.next(block)
			if l.shows(p, &r) {
				rows++
			}
		}
		return rows, nil
	}
	return rows, nil
}

// record returns a record by its number.
func (x *index) record(number int) (r record, err error) {
	at := x.blockOf(number)
	block, err := x.read(at, nil)
	if err != nil {
		return r, err
	}
	for n := x.block(at).first; n <= number; n++ {
		block = r.next(block)
	}
	return r, nil
}

// blockOf returns the block of a record that exists.
func (x *index) blockOf(number int) int {
	low, high := 0, x.blockCount()
	for high-low > 1 {
		if middle := (low + high) / 2; x.block(middle).first <= number {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// find returns the record that has the byte at an offset of a stream, or else the next one.
func (x *index) find(stream int, offset int64) (number int, is bool, err error) {
	candidate := -1
	for at := range x.blockCount() {
		for _, c := range x.block(at).counts {
			if c.stream == stream && c.records > 0 && (c.offset <= offset || candidate < 0) {
				candidate = at
			}
		}
	}
	if candidate < 0 {
		return 0, false, nil
	}
	block, err := x.read(candidate, nil)
	if err != nil {
		return 0, false, err
	}
	var r record
	best := int64(math.MinInt64)
	for n := x.block(candidate).first; len(block) > 0; n++ {
		block = r.next(block)
		if r.stream == stream && (r.offset <= offset || best == math.MinInt64) {
			number, best = n, r.offset
		}
	}
	return number, best != math.MinInt64, nil
}

// around returns the folds that have a record, the outermost one last.
func (x *index) around(fold int) (folds []int) {
	for ; fold > neverShown; fold = x.folds[fold].parent {
		folds = append(folds, fold)
	}
	return folds
}
