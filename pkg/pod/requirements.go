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

// exitTimeout is the exit code of a container whose timeout has passed
// (internal/supervisor).
const exitTimeout = 124

// unmetRequirements warns of annotations of the pod that have no effect on any container, for
// lack of another option.
func unmetRequirements(containers []container) (warnings []Warning) {
	unmet := map[string]string{} // what to do, by what has no effect
	met := map[string]bool{}
	for _, c := range containers {
		has := func(option string) bool {
			return slices.ContainsFunc(c.settings, func(s setting) bool { return s.Name == option })
		}
		for _, s := range c.settings {
			if !s.isPods() {
				continue
			}
			if needed, known := requiredOptions[s.Name]; known {
				unmet[s.source()] = needed.advice
				met[s.source()] = met[s.source()] || slices.ContainsFunc(needed.others, has)
			}
			if s.Name == exitCodesOption && has(timeoutOption) && containsExitCode(s.value, exitTimeout) {
				unmet[s.source()+": 124"] = "a timeout fails the container with 124, whatever codes of the command count as success; remove 124, or the timeout"
			}
		}
	}
	for _, source := range slices.Sorted(maps.Keys(unmet)) {
		if !met[source] {
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "%s has no effect: %s", source, unmet[source]))
		}
	}
	return warnings
}

// containsExitCode reports whether a list of exit codes contains exactly this code as an
// item of its own.
func containsExitCode(list string, code int) bool {
	set, _ := exitcodes.Parse(list) // exitCodeFlags reports the error
	return slices.Contains(set, exitcodes.Range{From: code, To: code})
}
