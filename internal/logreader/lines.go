// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import "bytes"

// longestLine is how much of a line is held until its end comes, in bytes.
const longestLine = 64 << 10

// A line is a line of a stream, or a piece of a line that is too long.
type line struct {
	text      []byte // with its newline, if it has one; valid until the next call
	time      int64  // the time of its first byte, in Unix milliseconds
	printed   int64  // the same by the sender's clock, which may have been set back
	continued bool   // an earlier piece of the same line was returned
	from      int64  // the offset of its first byte
	ended     bool   // it ends with a newline
	isNotice  bool   // it stands for bytes that aren't there
}

// A splitter splits the parts of a stream into lines.
type splitter struct {
	unread    part   // the rest of the last part
	held      []byte // the beginning of a line
	began     int64  // the time of its first byte
	printed   int64  // the same by the sender's clock
	lastTime  int64  // the time of the last byte so far; before it, that of the start
	lastClock int64  // the same by the sender's clock
	continued bool   // pieces of the current line were returned
	from      int64  // the offset of the first byte of the current piece
	isNotice  bool   // the last part stands for bytes that aren't there
}

// feed adds a part. Call it only after next has returned all lines.
func (l *splitter) feed(p part) {
	if l.isNotice = p.Data == nil; l.isNotice {
		p.Data, p.Times = p.placeholder(l.lastTime), nil
		if len(l.held) > 0 || l.continued {
			p.Data = append([]byte("\n"), p.Data...)
		}
	}
	l.unread = p
}

// next returns the next complete line, if there is one.
func (l *splitter) next() (line, bool) {
	text := l.unread.Data
	if len(text) == 0 {
		return line{}, false
	}
	begins := len(l.held) == 0
	if begins {
		l.from = l.unread.From
	}
	isNotice := l.isNotice && begins && !l.continued
	if begins && !l.continued {
		l.began, l.printed = l.nextTime()
	}
	end := bytes.IndexByte(text, '\n') + 1
	ended := end > 0
	if !ended {
		end = len(text)
	}
	text, l.unread.Data = text[:end], text[end:]
	if !l.isNotice {
		l.unread.From += int64(end)
	}
	if !ended || len(l.held) > 0 {
		l.held = append(l.held, text...)
		text = l.held
	}
	if !ended && len(text) <= longestLine {
		return line{}, false
	}
	l.held = l.held[:0]
	is := l.newLine(text, ended)
	is.isNotice = isNotice
	return is, true
}

func (l *splitter) newLine(text []byte, ended bool) line {
	is := line{text: text, time: l.began, printed: l.printed, continued: l.continued, from: l.from, ended: ended}
	l.continued = !ended
	return is
}

// nextTime returns the time of the next byte, and that of the sender's clock. Times never go
// back, even if several senders have different clocks.
func (l *splitter) nextTime() (at, clock int64) {
	for len(l.unread.Times) > 0 && l.unread.Times[0][0] <= l.unread.From {
		l.lastClock = l.unread.Times[0][1]
		l.lastTime = max(l.lastTime, l.lastClock)
		l.unread.Times = l.unread.Times[1:]
	}
	return l.lastTime, l.lastClock
}

// rest returns the last line, which has no newline.
func (l *splitter) rest() (line, bool) {
	text := l.held
	l.held = nil
	return l.newLine(text, false), len(text) > 0
}
