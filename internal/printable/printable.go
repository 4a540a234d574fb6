// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package printable makes the text of tenants safe to show on a terminal.
package printable

import (
	"strings"
	"unicode"
)

// Text replaces all characters but newlines that could move the cursor of a terminal or
// change its state.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
