// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import "bytes"

// longestLine is how much of a line is held until its end comes, in bytes.
const longestLine = 64 << 10

// A line is one of a stream, or a piece of one that is too long.
type line struct {
	text []byte // with its end, if it has one; good until the next call
	time int64  // when its first byte came, in Unix milliseconds
	more bool   // it goes on with a line of which a piece was there before
}

// A splitter makes lines of the parts of a stream.
type splitter struct {
	left  part   // what is to be looked at
	held  []byte // the beginning of a line
	began int64  // when its first byte came
	last  int64  // when the last byte came that was looked at; at first, no later than any
	cut   bool   // of the line that is begun, pieces were returned
}

// feed takes the next part, once next has returned all lines.
func (l *splitter) feed(p part) {
	if p.Data == nil {
		p.Data, p.Times = p.instead(), nil
		if len(l.held) > 0 || l.cut {
			p.Data = append([]byte("\n"), p.Data...)
		}
	}
	l.left = p
}

// next is the next line that is whole, if there is one.
func (l *splitter) next() (line, bool) {
	text := l.left.Data
	if len(text) == 0 {
		return line{}, false
	}
	if len(l.held) == 0 && !l.cut {
		l.began = l.came()
	}
	end := bytes.IndexByte(text, '\n') + 1
	ended := end > 0
	if !ended {
		end = len(text)
	}
	text, l.left.Data = text[:end], text[end:]
	l.left.From += int64(end)
	if !ended || len(l.held) > 0 {
		l.held = append(l.held, text...)
		text = l.held
	}
	if !ended && len(text) <= longestLine {
		return line{}, false
	}
	l.held = l.held[:0]
	return l.is(text, ended), true
}

func (l *splitter) is(text []byte, ended bool) line {
	is := line{text, l.began, l.cut}
	l.cut = !ended
	return is
}

// came is when the next byte came. Clocks of several senders don't disorder a stream.
func (l *splitter) came() int64 {
	for len(l.left.Times) > 0 && l.left.Times[0][0] <= l.left.From {
		l.last = max(l.last, l.left.Times[0][1])
		l.left.Times = l.left.Times[1:]
	}
	return l.last
}

// rest is what has no end.
func (l *splitter) rest() (line, bool) {
	text := l.held
	l.held = nil
	return l.is(text, false), len(text) > 0
}
