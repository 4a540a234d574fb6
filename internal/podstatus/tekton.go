// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/internal/printable"
)

const (
	// compressed begins a termination message that is compressed.
	compressed = "tknz:"
	// mostOfMessage bounds what a compressed message becomes, in bytes.
	mostOfMessage = 1 << 20
	// mostResults and longestResult bound what is shown of results, the latter in characters.
	mostResults   = 10
	longestResult = 200
)

// A StepResult is a part of the termination message of a step.
type StepResult struct {
	Key, Value string
	Type       json.RawMessage // a number, or a word by an old release
}

// StepResults reads the termination message of a step. It reports false for the message of
// another container. Package termination of Tekton writes the message.
func StepResults(message string) (results []StepResult, is bool) {
	if packed, isPacked := strings.CutPrefix(message, compressed); isPacked {
		text, err := io.ReadAll(io.LimitReader(flate.NewReader(base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(packed))), mostOfMessage))
		if err != nil {
			return nil, false
		}
		message = string(text)
	}
	return results, json.Unmarshal([]byte(message), &results) == nil
}

// isUsers reports whether the author of the step has written the result, as opposed to
// Tekton itself (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/result/result.go).
func (r *StepResult) isUsers() bool {
	return slices.Contains([]string{"1", "4", `"TaskRunResult"`, `"StepResult"`}, string(r.Type))
}

// ownWords returns the lines of the termination message of a container: of a step, the
// results that its author has written.
func (c *Container) ownWords() (lines []string) {
	results, is := StepResults(c.Message)
	if c.turn == nil || !is {
		return quoted(c.Message)
	}
	results = slices.DeleteFunc(results, func(r StepResult) bool { return !r.isUsers() })
	for _, r := range results[:min(len(results), mostResults)] {
		line := []rune(printable.Line(r.Key + ": " + strings.TrimSpace(r.Value)))
		if len(line) > longestResult {
			line = append(line[:longestResult], []rune("...")...)
		}
		lines = append(lines, "| "+string(line))
	}
	if more := len(results) - mostResults; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more results", more))
	}
	return lines
}
