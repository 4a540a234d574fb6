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

// Parse reads codes and ranges of failures, separated by commas.
func Parse(list string) (set Set, ok bool) { return parse(list, 1) }

// ParseAll is Parse for all codes: 0 is one of them.
func ParseAll(list string) (set Set, ok bool) { return parse(list, 0) }

func parse(list string, least uint64) (set Set, ok bool) {
	for word := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(word), "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.ParseUint(from, 10, 8)
		last, errLast := strconv.ParseUint(to, 10, 8)
		if errFirst != nil || errLast != nil || first < least || last < first {
			return nil, false
		}
		set = append(set, Range{int(first), int(last)})
	}
	return set, true
}

// Of returns the set of the codes that have been chosen.
func Of(chosen *[1 << 8]bool) (set Set) {
	for code, is := range chosen {
		switch last := len(set) - 1; {
		case !is:
		case last >= 0 && set[last].To == code-1:
			set[last].To = code
		default:
			set = append(set, Range{code, code})
		}
	}
	return set
}

// String returns the set in the format that ParseAll reads.
func (s Set) String() string {
	var words []string
	for _, r := range s {
		word := strconv.Itoa(r.From)
		if r.To > r.From {
			word += "-" + strconv.Itoa(r.To)
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}

// Contains reports whether the set contains the code.
func (s Set) Contains(code int) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return r.From <= code && code <= r.To })
}
