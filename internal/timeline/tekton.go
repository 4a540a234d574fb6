// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/podstatus"
)

// tektonStart returns when the command of a step began, to the millisecond, as Tekton's
// entrypoint leaves it in the termination message, and the reason if the step was skipped
// or ended early.
func tektonStart(message string) (began time.Time, reason string, is bool) {
	results, _ := podstatus.StepResults(message)
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
