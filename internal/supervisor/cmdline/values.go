// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmdline

import (
	"strings"
	"time"
)

// Each function here returns the set function of a flag.

// Duration sets a time above zero.
//
//go:noinline
func Duration(d *time.Duration) func(value string) (hint string) {
	return func(value string) string {
		parsed, err := time.ParseDuration(value)
		if err != nil || parsed <= 0 {
			return "not a duration: use a number above zero with a unit, such as 90s or 1h30m"
		}
		*d = parsed
		return ""
	}
}

// Path sets an absolute path.
//
//go:noinline
func Path(path *string) func(value string) (hint string) {
	return func(value string) string {
		*path = value
		return Absolute(value)
	}
}

// Paths adds an absolute path.
//
//go:noinline
func Paths(paths *[]string) func(value string) (hint string) {
	return func(value string) string {
		*paths = append(*paths, value)
		return Absolute(value)
	}
}

// Switch sets a flag without a value.
func Switch(on *bool) func(value string) (hint string) {
	return func(string) string {
		*on = true
		return ""
	}
}

// Absolute checks that path doesn't depend on the working directory.
func Absolute(path string) (hint string) {
	if !strings.HasPrefix(path, "/") {
		return "not an absolute path: use one that begins with /"
	}
	return ""
}
