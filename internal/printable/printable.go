// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package printable makes the text of tenants safe to show on a terminal, which obeys escape
// sequences.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes all characters but newlines and tabs that could move the cursor of a
// terminal, change its state, or hide or reorder other characters: \x1b.
func Text(text string) string { return escaped(text, true) }

// Line is Text for a value that stands in a line of ours: newlines are escaped as well.
func Line(text string) string { return escaped(text, false) }

func escaped(text string, newlines bool) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case IsUnsafe(r) || r == '\n' && !newlines:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// JSON escapes the same characters in a document of JSON, which keeps its meaning.
func JSON(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case !IsUnsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// IsUnsafe reports whether a character, other than newline and tab, could move the cursor, change
// the state of a terminal, or hide or reorder other characters.
func IsUnsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}
