// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"time"
)

const (
	// compressed begins a termination message that is compressed.
	compressed = "tknz:"
	// mostOfMessage bounds what a compressed message becomes, in bytes.
	mostOfMessage = 1 << 20
)

// tektonStart returns when the command of a step began, to the millisecond, as Tekton's
// entrypoint leaves it in the termination message, and the reason if the step was skipped
// or ended early. Package termination of Tekton writes the message.
func tektonStart(message string) (began time.Time, reason string, is bool) {
	if packed, isPacked := strings.CutPrefix(message, compressed); isPacked {
		text, err := io.ReadAll(io.LimitReader(flate.NewReader(base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(packed))), mostOfMessage))
		if err != nil {
			return began, "", false
		}
		message = string(text)
	}
	var results []struct{ Key, Value string }
	if json.Unmarshal([]byte(message), &results) != nil {
		return began, "", false
	}
	for _, r := range results {
		switch r.Key {
		case "StartedAt":
			if at, err := time.Parse(time.RFC3339, r.Value); err == nil {
				began, is = at.UTC(), true
			}
		case "Reason":
			reason = r.Value
		}
	}
	return began, reason, is
}
