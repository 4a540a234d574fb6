// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package exitcodes parses sets of exit codes: the injector refuses invalid sets, and the
// supervisor evaluates valid ones. Although it isn't a toolkit, it is in pkg/, because
// pkg/pod uses it and doesn't import internal/.
package exitcodes

import (
	"slices"
	"strconv"
	"strings"
)

// A Set is a list of ranges; nil is empty.
type Set []Range

// A Range includes both of its ends.
type Range struct{ From, To int }

// Syntax describes the input of Parse, for errors.
const Syntax = "exit codes from 1 to 255 and ranges of them, such as 3,10-12"

// Parse reads codes and ranges, separated by commas.
func Parse(list string) (set Set, ok bool) {
	for word := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(word), "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.ParseUint(from, 10, 8)
		last, errLast := strconv.ParseUint(to, 10, 8)
		if errFirst != nil || errLast != nil || first < 1 || last < first {
			return nil, false
		}
		set = append(set, Range{int(first), int(last)})
	}
	return set, true
}

// Contains reports whether the set contains the code.
func (s Set) Contains(code int) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return r.From <= code && code <= r.To })
}
