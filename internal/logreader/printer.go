// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// longestLine is how much of a line is held until its end comes, in bytes.
const longestLine = 64 << 10

// colors are those of terminals that are read on white and on black.
var colors = []string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"}

const noColor = "\x1b[0m"

// A Printer writes the lines of several streams to one output. The lines are whole,
// but those longer than 64 KiB.
type Printer struct {
	// Prefix says whether each line begins with its pod and container; nil is where
	// there are several, or where others may come.
	Prefix *bool
	// Color gives each container its own.
	Color bool

	out io.Writer

	mu         sync.Mutex
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
	held      []byte // the beginning of a line
}

// sink is for one stream of a container.
func (p *Printer) sink(s Stream) *sink {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := "pod/" + s.Pod + "/" + s.Container
	if _, known := p.containers[name]; !known {
		p.containers[name] = len(p.containers)
	}
	return &sink{Printer: p, container: name}
}

// Write implements io.Writer.
func (s *sink) Write(data []byte) (int, error) {
	s.held = append(s.held, data...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	if end == 0 && len(s.held) > longestLine {
		end = len(s.held)
	}
	if end > 0 {
		if err := s.print(s.held[:end]); err != nil {
			return 0, err
		}
		s.held = append(s.held[:0], s.held[end:]...)
	}
	return len(data), nil
}

// flush prints what has no end.
func (s *sink) flush() error {
	defer func() { s.held = nil }()
	if len(s.held) == 0 {
		return nil
	}
	return s.print(s.held)
}

// print writes lines, of which the last may be cut.
func (s *sink) print(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	begun := s.last == s
	if s.last != nil && !begun {
		b.WriteByte('\n')
	}
	s.last = nil
	for line := range bytes.Lines(text) {
		s.line(&b, line, begun)
		begun = false
		if line[len(line)-1] != '\n' {
			s.last = s
		}
	}
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("printing a log: %w", err)
	}
	return nil
}

func (s *sink) line(b *bytes.Buffer, line []byte, begun bool) {
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	prefix := len(s.containers) > 1
	if s.Prefix != nil {
		prefix = *s.Prefix
	}
	if s.Color {
		b.WriteString(colors[s.containers[s.container]%len(colors)])
	}
	if prefix && !begun {
		b.WriteString("[" + s.container + "] ")
	}
	if s.Color && prefix {
		b.WriteString(noColor)
	}
	b.Write(text)
	if s.Color && !prefix {
		b.WriteString(noColor)
	}
	if ended {
		b.WriteByte('\n')
	}
}
