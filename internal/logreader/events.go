// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"encoding/json"
	"strings"
)

// readable makes one line of an event: what happened, and what is known of it, as in
// "exited exitCode=1". What is no event stays as it is, such as a line in the place of
// some that were dropped.
func readable(text []byte) []byte {
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
	if json.Unmarshal(raw, &value) != nil || value == "" || strings.ContainsAny(value, " \"=\t\n\r\x1b") {
		return string(raw)
	}
	return value
}
