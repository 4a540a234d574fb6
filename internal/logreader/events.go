// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readable makes one line of an event: what happened, and what is known of it, as in
// "exited exitCode=1". What is no event stays as it is, such as a line in the place of
// some that were dropped.
func readable(text []byte) []byte { return []byte(printable(string(summary(text)))) }

// printable has a terminal do nothing but print: a tenant may call things as it likes.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r) || r == '\t':
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

func summary(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return text
	}
	var kind, rest strings.Builder
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return text
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return text
		}
		switch key {
		case "time": // which is in front of the line
		case "event":
			kind.WriteString(plain(raw))
		default:
			rest.WriteString(" " + key.(string) + "=" + plain(raw))
		}
	}
	return []byte(kind.String() + rest.String())
}

// plain is a value without the quotes that nobody needs.
func plain(raw json.RawMessage) string {
	var value string
	if json.Unmarshal(raw, &value) != nil || value == "" || strings.ContainsAny(value, " \"=\t\n\r") {
		return string(raw)
	}
	return value
}
