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

// readableEvent formats an event as one line: its name and its fields, as in "exited
// exitCode=1". Text that isn't an event stays as it is, such as a placeholder for dropped
// bytes.
func readableEvent(text []byte) []byte { return []byte(printable(string(eventSummary(text)))) }

// printable escapes control characters, because names and events come from tenants, and
// terminals obey escape sequences.
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

func eventSummary(text []byte) []byte {
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
		case "time": // printed in front of the line
		case "event":
			kind.WriteString(unquoted(raw))
		default:
			rest.WriteString(" " + key.(string) + "=" + unquoted(raw))
		}
	}
	return []byte(kind.String() + rest.String())
}

// unquoted returns a value, without quotes unless it needs them.
func unquoted(raw json.RawMessage) string {
	var value string
	if json.Unmarshal(raw, &value) != nil || value == "" || strings.ContainsAny(value, " \"=\t\n\r") {
		return string(raw)
	}
	return value
}
