// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

// A Matcher tells whether lines match, each by itself. It isn't safe for concurrent use.
type Matcher struct{ automaton *automaton }

// NewMatcher returns a matcher.
func NewMatcher(e *Expression) *Matcher { return &Matcher{newAutomaton(e)} }

// Matches reports whether a line matches, which is given without its newline.
func (m *Matcher) Matches(line []byte) bool { return m.automaton.matches(line) }
