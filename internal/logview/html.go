// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"html/template"
	"strconv"
	"time"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// A markup is HTML. Only constants of this package and escaped text get into it.
type markup struct{ bytes.Buffer }

type constant string

func (m *markup) tag(text constant) { _, _ = m.WriteString(string(text)) }

func (m *markup) text(text []byte) { template.HTMLEscape(m, text) }

func (m *markup) number(n int64) { _, _ = m.Write(strconv.AppendInt(m.AvailableBuffer(), n, 10)) }

// line writes text of others in one line.
func (m *markup) line(text string) { m.text([]byte(printable.Line(text))) }

// timestamp is RFC 3339 with a fixed width.
const timestamp = "2006-01-02T15:04:05.000Z"

// row writes a row. The query marks what it matches; nil marks nothing.
func (l *layout) row(m *markup, r row, q *query) {
	if r.title != "" {
		m.tag(`<div class="r title" data-n="-1">`)
		m.line(r.title)
		m.tag("</div>\n")
		return
	}
	s := l.streams[r.stream]
	m.tag(rowClass(&r.record, s))
	m.number(int64(r.number))
	m.tag(`"><a class="n" tabindex="-1" href="#log=`)
	m.text([]byte(template.URLQueryEscaper(s.ID)))
	m.tag(`:`)
	m.number(r.offset)
	m.tag(`">`)
	switch {
	case r.flags&isGap != 0:
		m.tag(`<span class="unseen">gap </span>·`)
	case r.flags&isPiece == 0 && r.number >= 0 && r.record.number > 0:
		m.number(r.record.number)
	default:
		m.tag(`<span class="unseen">more of line </span>·`)
	}
	m.tag(`</a><time>`)
	m.text(time.UnixMilli(r.time).UTC().AppendFormat(nil, timestamp))
	m.tag(`</time><span class="s" title="`)
	m.line(s.label)
	m.tag(`">`)
	m.line(s.label)
	m.tag(`</span>`)
	if s.Name != "stdout" {
		m.tag(`<span class="k">`)
		m.line(s.Name)
		m.tag(`</span>`)
	}
	m.tag(`<span class="t">`)
	l.content(m, r, q)
	m.tag("</span></div>\n")
}

// rowClass begins a row.
func rowClass(r *record, s *stream) constant {
	kinds := [...]constant{`<div class="r`, `<div class="r gap`, `<div class="r head`}
	kind := kinds[0]
	switch {
	case r.flags&isGap != 0:
		kind = kinds[1]
	case r.flags&opensFold != 0:
		kind = kinds[2]
	}
	if s.Name != "stdout" {
		kind += " e"
	}
	return kind + `" data-n="`
}

func (l *layout) content(m *markup, r row, q *query) {
	at, isHead := l.heads[r.number]
	if r.flags&opensFold != 0 && isHead {
		f := &l.folds[at]
		l.button(m, at, `fold`)
		name := record{flags: r.flags, text: r.text[lengthOfMark:]}
		if len(name.shown()) == 0 {
			m.tag("group")
		}
		styled(m, &name, q)
		m.tag(`</button> <span class="q">`)
		m.line(counted(int64(f.records), "line"))
		m.tag(`</span>`)
		return
	}
	styled(m, &r.record, q)
	if isHead {
		m.tag(" ")
		l.button(m, at, `more`)
		m.tag(`the line goes on for `)
		m.line(sized(l.folds[at].bytes))
		m.tag(`</button>`)
	}
}

// button begins a button that opens or closes a fold.
func (l *layout) button(m *markup, fold int, class constant) {
	m.tag(`<button type="button" class="`)
	m.tag(class)
	m.tag(`" data-fold="`)
	m.number(int64(fold))
	if l.open[fold] {
		m.tag(`" aria-expanded="true">`)
	} else {
		m.tag(`" aria-expanded="false">`)
	}
}

// counted and sized write numbers for people.
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

func sized(bytes int64) string {
	switch {
	case bytes < 10_000:
		return counted(bytes, "byte")
	case bytes < 10_000_000:
		return strconv.FormatInt(bytes/1000, 10) + " kB"
	default:
		return strconv.FormatInt(bytes/1_000_000, 10) + " MB"
	}
}

// styled writes what a record shows, with classes, and with what matches marked.
func styled(m *markup, r *record, q *query) {
	var found [][2]int
	if q != nil && r.flags&isGap == 0 {
		found = q.all(r.shown())
	}
	at := 0
	emit := func(t token) {
		class := t.style.classes()
		if t.escaped {
			class = "esc"
		}
		if class != "" {
			m.tag(`<span class="`)
			m.tag(constant(class))
			m.tag(`">`)
		}
		found = marked(m, t.text, at, found)
		if class != "" {
			m.tag(`</span>`)
		}
		at += len(t.text)
	}
	if r.flags&(plain|isGap) != 0 {
		emit(token{r.text, r.style, false})
		return
	}
	if _, replaced := show(r.text, r.style, emit); replaced > 0 {
		m.tag(` <span class="q">replaces `)
		m.number(int64(replaced))
		m.tag(` earlier</span>`)
	}
}

// marked writes a text that begins at an offset, with the ranges marked that were found, and
// returns those that go on behind it.
func marked(m *markup, text []byte, at int, found [][2]int) [][2]int {
	for len(found) > 0 && found[0][0] < at+len(text) {
		from, to := max(found[0][0]-at, 0), found[0][1]-at
		m.text(text[:from])
		m.tag(`<mark>`)
		m.text(text[from:min(to, len(text))])
		m.tag(`</mark>`)
		if to > len(text) {
			return found
		}
		text, at, found = text[to:], at+to, found[1:]
	}
	m.text(text)
	return found
}
