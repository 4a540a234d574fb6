// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"strings"
	"unicode"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// A failure passes on to the supervisor why nothing is sent.
type failure struct {
	ring *ring.Reader
	news int // the eventfd that wakes the supervisor
	text string
}

// set replaces the reason, "" for none. A different one wakes the supervisor.
func (f *failure) set(text string) {
	if text = printable(text); text == f.text {
		return
	}
	f.text = text
	f.ring.SetFailure(text)
	ring.Wake(f.news)
}

// printable returns a text as one printable line: a response may contain anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
