// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import "strings"

// version is set when a release is linked: -ldflags "-X <package>.version=v1.2.3".
var version = ""

// module is the one that this program is built of.
const module = "github.com/entrypointer/entrypointer"

// versionOf returns the version of a program: the one that was set, or else what
// Go's build information says of the main module, a version, or a pseudo-version
// with the commit; devel if neither does. Package debug/buildinfo would say so,
// too, and double the size of the program.
func versionOf(path string) string {
	if version != "" {
		return version
	}
	program, _ := readFile(path, 64<<20)
	for rest, found := string(program), true; found; {
		_, rest, found = strings.Cut(rest, "\nmod\t"+module)
		// The words above are in the program as well.
		value, isLine := strings.CutPrefix(rest, "\t")
		value, _, _ = strings.Cut(value[:min(len(value), 100)], "\n")
		value, _, _ = strings.Cut(value, "\t")
		if isLine && strings.HasPrefix(value, "v") {
			return value
		}
	}
	return "devel"
}
