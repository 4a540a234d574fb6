// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// colors are readable on a white and on a black terminal.
var colors = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"}

const noColor = "\x1b[0m"

const (
	// timestamp is RFC 3339 with a fixed width.
	timestamp = "2006-01-02T15:04:05.000Z"
	// flushSize is how much text is gathered before it is written, in bytes.
	flushSize = 32 << 10
)

// A Printer writes the lines of several streams to one output. It splits only lines that
// are longer than 64 KiB.
type Printer struct {
	// Prefix says whether each line begins with its pod and container. nil stands for true
	// if there are several containers.
	Prefix *bool
	// Color gives each container a color.
	Color bool
	// Timestamps begins each line with the time of its first byte.
	Timestamps bool
	// Span leaves out lines from before or after it, to the millisecond.
	Span
	// Match leaves out lines that it doesn't match, but for those in the place of bytes that
	// are missing; nil stands for all lines. Of a line that is split, the first piece counts.
	Match *regexp.Regexp
	// Readable prints events, which are JSON, in a form that is easier to read.
	Readable bool
	// JSON prints events as they are stored, each as one object of JSON, and in the place of a
	// prefix its pod and container as fields.
	JSON bool

	out io.Writer
	// each takes the lines in place of out, if it isn't nil.
	each func(Line) error

	mu         sync.Mutex
	text       bytes.Buffer // gathered, and not written yet
	containers map[string]int
	last       *sink // the sink of an unfinished line, nil if there is none
}

// NewPrinter returns a printer that writes to out.
func NewPrinter(out io.Writer) *Printer {
	return &Printer{out: out, containers: map[string]int{}}
}

// A sink prints one stream.
type sink struct {
	*Printer
	container string // the prefix: pod and container
	of        Stream
	lines     splitter
	skips     bool // pieces of the current line
}

// sink returns the sink of a stream.
func (p *Printer) sink(s Stream) *sink {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := printable.Line("pod/" + s.Pod + "/" + s.Container)
	if _, known := p.containers[name]; !known {
		p.containers[name] = len(p.containers)
	}
	return &sink{Printer: p, container: name, of: s, lines: splitter{lastTime: s.began()}}
}

// part prints the lines of a part.
func (s *sink) part(p part) error {
	s.lines.feed(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		l, whole := s.lines.next()
		if !whole {
			return s.write()
		}
		if err := s.gather(l); err != nil {
			return err
		}
	}
}

// finish prints the last line, which may have no newline.
func (s *sink) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, is := s.lines.rest(); is {
		if err := s.gather(l); err != nil {
			return err
		}
	}
	return s.write()
}

// print gathers a line for printing.
func (s *sink) print(l line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gather(l)
}

// separate gathers a line between lines that aren't neighbours.
func (p *Printer) separate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.WriteString("--\n")
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

// gather adds a line to the text, unless it isn't of the span, or doesn't match.
func (s *sink) gather(l line) error {
	if !s.Span.has(l) {
		return nil
	}
	if s.Match != nil && !l.continued {
		s.skips = !bytes.HasPrefix(l.text, []byte(noticeBegins)) && !s.Match.Match(bytes.TrimSuffix(l.text, []byte("\n")))
	}
	if s.skips {
		return nil
	}
	if s.each != nil {
		return s.each(s.exported(l))
	}
	begun := l.continued && s.last == s
	if s.last != nil && !begun {
		s.text.WriteByte('\n')
	}
	s.last = nil
	text, ended := bytes.CutSuffix(l.text, []byte("\n"))
	if !ended {
		s.last = s
	}
	if s.Readable {
		text = readableEvent(text)
	}
	s.format(text, l.time, begun)
	if ended {
		s.text.WriteByte('\n')
	}
	if s.text.Len() < flushSize {
		return nil
	}
	return s.write()
}

func (s *sink) format(text []byte, came int64, begun bool) {
	prefix := len(s.containers) > 1
	if s.Prefix != nil {
		prefix = *s.Prefix
	}
	if s.JSON {
		s.text.Write(s.asJSON(text, prefix))
		return
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

// asJSON returns an event as an object of JSON, with its pod and container if they are
// asked for: they are its last fields, which count if the event has such fields as well. What
// is no event says where bytes are missing.
func (s *sink) asJSON(text []byte, withSource bool) []byte {
	object, isObject := bytes.CutSuffix(bytes.TrimSpace(text), []byte("}"))
	if !isObject || !json.Valid(text) || object[0] != '{' {
		notice, _ := json.Marshal(map[string]string{"notice": string(text)}) // text is never refused
		object = bytes.TrimSuffix(notice, []byte("}"))
	}
	if !withSource {
		return append(object, '}')
	}
	source, _ := json.Marshal(struct {
		Pod       string `json:"pod"`
		Container string `json:"container"`
	}{s.of.Pod, s.of.Container})
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(object, source[1:]...)
}
