// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package printable makes the text of tenants safe to show on a terminal.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text replaces all characters but newlines and tabs that could move the cursor of a
// terminal, change its state, or hide or reorder other characters.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if isUnsafe(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Line is Text for a value that stands in a line of ours: it stays in that line.
func Line(text string) string {
	return Text(strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " \u23ce ")), " "))
}

// JSON escapes the same characters in a document of JSON, which keeps its meaning.
func JSON(document string) string {
	var b strings.Builder
	for _, r := range document {
		switch {
		case !isUnsafe(r):
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

func isUnsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}
