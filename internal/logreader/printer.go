// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// colors are those of terminals that are read on white and on black.
var colors = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"}

const noColor = "\x1b[0m"

const (
	// timestamp is RFC 3339, of the same width for all lines.
	timestamp = "2006-01-02T15:04:05.000Z"
	// enough is how much is gathered before it is written, in bytes.
	enough = 32 << 10
)

// A Printer writes the lines of several streams to one output. The lines are whole,
// but those longer than 64 KiB.
type Printer struct {
	// Prefix says whether each line begins with its pod and container; nil is where
	// there are several, or where others may come.
	Prefix *bool
	// Color gives each container its own.
	Color bool
	// Timestamps has each line say when its first byte came.
	Timestamps bool
	// Since leaves out lines that came before; those of its own millisecond are there.
	Since time.Time
	// Readable makes of events, which are JSON, what is easier to read.
	Readable bool

	out io.Writer

	mu         sync.Mutex
	text       bytes.Buffer // what isn't written yet
	containers map[string]int
	last       *sink // whose line hasn't ended
}

// NewPrinter returns one that writes to out.
func NewPrinter(out io.Writer) *Printer {
	return &Printer{out: out, containers: map[string]int{}}
}

// A sink takes what a stream has.
type sink struct {
	*Printer
	container string // and its pod
	lines     splitter
}

// sink is for one stream of a container.
func (p *Printer) sink(s Stream) *sink {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := printable("pod/" + s.Pod + "/" + s.Container)
	if _, known := p.containers[name]; !known {
		p.containers[name] = len(p.containers)
	}
	return &sink{Printer: p, container: name, lines: splitter{last: s.began()}}
}

// part prints the lines of one.
func (s *sink) part(p part) error {
	s.lines.feed(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		l, whole := s.lines.next()
		if !whole {
			return s.write()
		}
		if err := s.add(l); err != nil {
			return err
		}
	}
}

// end prints what has no end.
func (s *sink) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, is := s.lines.rest(); is {
		if err := s.add(l); err != nil {
			return err
		}
	}
	return s.write()
}

// print prints a line, sooner or later.
func (s *sink) print(l line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(l)
}

// flush writes what is gathered.
func (p *Printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write()
}

func (p *Printer) write() error {
	if p.text.Len() == 0 {
		return nil
	}
	_, err := p.out.Write(p.text.Bytes())
	p.text.Reset()
	if err != nil {
		return fmt.Errorf("printing a log: %w", err)
	}
	return nil
}

// add gathers a line, unless it came too early.
func (s *sink) add(l line) error {
	if !s.Since.IsZero() && l.time < s.Since.UnixMilli() {
		return nil
	}
	begun := l.more && s.last == s
	if s.last != nil && !begun {
		s.text.WriteByte('\n')
	}
	s.last = nil
	text, ended := bytes.CutSuffix(l.text, []byte("\n"))
	if !ended {
		s.last = s
	}
	if s.Readable {
		text = readable(text)
	}
	s.format(text, l.time, begun)
	if ended {
		s.text.WriteByte('\n')
	}
	if s.text.Len() < enough {
		return nil
	}
	return s.write()
}

func (s *sink) format(text []byte, came int64, begun bool) {
	prefix := len(s.containers) > 1
	if s.Prefix != nil {
		prefix = *s.Prefix
	}
	if s.Color {
		s.text.WriteString(colors[s.containers[s.container]%len(colors)])
	}
	if prefix && !begun {
		s.text.WriteString("[" + s.container + "] ")
	}
	if s.Color && prefix {
		s.text.WriteString(noColor)
	}
	if s.Timestamps && !begun {
		s.text.WriteString(time.UnixMilli(came).UTC().Format(timestamp) + " ")
	}
	s.text.Write(text)
	if s.Color && !prefix {
		s.text.WriteString(noColor)
	}
}
