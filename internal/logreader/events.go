// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// readableEvent formats an event as one line: its name and its fields, as in "exited
// exitCode=1". Text that isn't an event stays as it is, such as a placeholder for dropped
// bytes.
func readableEvent(text []byte) []byte { return []byte(printable.Line(string(eventSummary(text)))) }

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
