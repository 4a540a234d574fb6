// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"
	"slices"

	"github.com/entrypointer/entrypointer/pkg/exitcodes"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// requiredOptions are options that have an effect only together with at least one of other
// options.
var requiredOptions = map[string]struct {
	others []string
	advice string
}{
	gracePeriodOption:      {[]string{timeoutOption, hooksOption, between.StopWhen}, "it is the time between the two signals of timeout, stop-when, and the timeout of before-start; set one of them, or remove the annotation"},
	"before-start-timeout": {[]string{hooksOption}, "it limits commands of before-start; set before-start, or remove the annotation"},
}

const (
	timeoutOption     = "timeout"
	gracePeriodOption = "grace-period"
	hooksOption       = "before-start"
	exitCodesOption   = "success-exit-codes"
	// exitTimeout is the exit code of a container whose timeout has passed
	// (internal/supervisor).
	exitTimeout = 124
)

// noteRequirements notes which annotations of the pod have an effect on at least one of its
// containers.
func (w *wrapping) noteRequirements(settings []setting) {
	has := func(option string) bool {
		return slices.ContainsFunc(settings, func(s setting) bool { return s.Name == option })
	}
	for _, s := range settings {
		if !s.isPods() {
			continue
		}
		if needed, known := requiredOptions[s.Name]; known {
			noted := w.requirements[s.source]
			noted.advice, noted.has = needed.advice, noted.has || slices.ContainsFunc(needed.others, has)
			w.requirements[s.source] = noted
		}
		if s.Name == exitCodesOption && has(timeoutOption) && containsExitCode(s.value, exitTimeout) {
			w.requirements[s.source+": 124"] = requirement{advice: "a timeout fails the container with 124, whatever codes of the command count as success; remove 124, or the timeout"}
		}
	}
}

// A requirement records whether an annotation has an effect on one of the containers, and
// what to do if it has none.
type requirement struct {
	has    bool
	advice string
}

// containsExitCode reports whether a list of exit codes contains exactly this code as an
// item of its own.
func containsExitCode(list string, code int) bool {
	set, _ := exitcodes.Parse(list) // exitCodeFlags reports the error
	return slices.Contains(set, exitcodes.Range{From: code, To: code})
}

// warnOfUnmetRequirements warns of annotations that have no effect on any container, for
// lack of another option.
func (w *wrapping) warnOfUnmetRequirements() {
	for _, source := range slices.Sorted(maps.Keys(w.requirements)) {
		if noted := w.requirements[source]; !noted.has {
			w.warnings = append(w.warnings, warning(ReasonAnnotationHasNoEffect, "%s has no effect: %s", source, noted.advice))
		}
	}
}
