// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package version tells the version of this program.
package version

import (
	"strings"

	"github.com/entrypointer/entrypointer/internal/proc"
)

// linked is set when a release is linked: -ldflags "-X <package>.linked=v1.2.3".
var linked = ""

// module is the path of this program's main module.
const module = "github.com/entrypointer/entrypointer"

// Of returns the version of a program: the linked one, or the main module's
// version in Go's build information, which may be a pseudo-version with the commit, or
// else "devel". It searches the file itself, because package debug/buildinfo would
// double the size of the program.
func Of(path string) string {
	if linked != "" {
		return linked
	}
	program, _ := proc.ReadFile(path, 64<<20)
	for rest, found := string(program), true; found; {
		_, rest, found = strings.Cut(rest, "\nmod\t"+module)
		// The search string itself is also in the program.
		value, isLine := strings.CutPrefix(rest, "\t")
		value, _, _ = strings.Cut(value[:min(len(value), 100)], "\n")
		value, _, _ = strings.Cut(value, "\t")
		if isLine && strings.HasPrefix(value, "v") {
			return value
		}
	}
	return "devel"
}
