// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package conditions names the states of a container for which another container can wait:
// in annotations, which admission reads, and in flags of the supervisor.
package conditions

import (
	"slices"
	"strings"
)

// A Condition is the state that a container must reach.
type Condition string

// The conditions.
const (
	Started   Condition = "started"   // the command has been started, and runs
	Ready     Condition = "ready"     // the container was ready after its command's start, and runs
	Completed Condition = "completed" // the command has ended with success: with 0, or a code in success-exit-codes
	Exited    Condition = "exited"    // the command has ended, with any code, and isn't restarted
)

// A List is a list of conditions.
type List []Condition

// Those that an option can have.
var (
	All  = List{Started, Ready, Completed, Exited}
	Ends = List{Completed, Exited}
)

// Has reports whether a word is one of the conditions.
func (l List) Has(word string) bool { return slices.Contains(l, Condition(word)) }

// Words returns the conditions as words.
func (l List) Words() []string {
	words := make([]string, len(l))
	for at, c := range l {
		words[at] = string(c)
	}
	return words
}

// String lists the conditions for an error: "started, ready, completed or exited".
func (l List) String() string { return l.listed("") }

// Markdown lists the conditions for a page.
func (l List) Markdown() string { return l.listed("`") }

// listed lists the conditions with a quote around each.
func (l List) listed(quote string) string {
	words := l.Words()
	last := len(words) - 1
	return quote + strings.Join(words[:last], quote+", "+quote) + quote + " or " + quote + words[last] + quote
}
