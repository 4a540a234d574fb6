// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// screen prints lines, and on a terminal one more below them, which moves.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	width  func() int // of the terminal, in columns; 0 is none
	status string     // the line that moves
}

// terminal is standard error: standard output is for results.
var terminal = &screen{out: os.Stderr, width: func() int {
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0
	}
	return width
}}

const eraseLine = "\r\x1b[K"

// moves tells whether a line that was printed can be replaced.
func (s *screen) moves() bool { return s.width() > 0 && os.Getenv("TERM") != "dumb" }

// print prints a line that stays.
func (s *screen) print(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == "" {
		fmt.Fprintln(s.out, line)
		return
	}
	fmt.Fprint(s.out, eraseLine, line, "\n", s.status)
}

// show replaces the line that moves; nothing ends it.
func (s *screen) show(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A line that is as long as the terminal is wide would begin another.
	if columns := s.width() - 1; len([]rune(status)) > columns {
		status = string([]rune(status)[:max(columns, 0)])
	}
	if status == s.status {
		return
	}
	s.status = status
	fmt.Fprint(s.out, eraseLine, status)
}
