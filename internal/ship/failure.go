// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"strings"
	"unicode"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// A failure is why nothing is sent, for the supervisor to tell.
type failure struct {
	ring *ring.Reader
	news int // an eventfd
	text string
}

// set says why, "" if there is nothing wrong, and wakes the supervisor if that is new.
func (f *failure) set(text string) {
	if text = printable(text); text == f.text {
		return
	}
	f.text = text
	f.ring.SetFailure(text)
	ring.Wake(f.news)
}

// printable is a text of one line: what a service answers may be anything.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
