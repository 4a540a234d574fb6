// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of a program that doesn't run in other people's pods.
// Those have internal/supervisor's, which needs fewer packages.
package version

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
)

// linked is set when ko links the program (.ko.yaml):
// -ldflags "-X github.com/entrypointer/entrypointer/internal/version.linked=v1.2.3-abcdef0".
var linked = ""

// Own returns the version of this program: the linked one, or else the version of the
// main module in Go's build information, which may be a pseudo-version with the commit,
// or else "devel".
func Own() string {
	build, _ := debug.ReadBuildInfo()
	return of(linked, build)
}

func of(linked string, build *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case build != nil && build.Main.Version != "" && build.Main.Version != "(devel)":
		return build.Main.Version
	default:
		return "devel"
	}
}

// Same reports whether two versions of [Own] can be of the same commit: ko links the tag
// and the beginning of the commit, Go records a tag or a pseudo-version with more of the
// commit, and nothing is known of "devel".
func Same(a, b string) bool {
	if a == b || a == "devel" || b == "devel" {
		return true
	}
	tagA, commitA := cut(a)
	tagB, commitB := cut(b)
	if commitA != "" && commitB != "" {
		return strings.HasPrefix(commitA, commitB) || strings.HasPrefix(commitB, commitA)
	}
	return tagA == tagB
}

// cut cuts a version into its tag and its commit, which may be unknown.
func cut(version string) (tag, commit string) {
	version, _, _ = strings.Cut(version, "+")
	if found := commits.FindStringSubmatch(version); found != nil {
		return found[1], found[2]
	}
	return version, ""
}

// commits finds the commit of a version, with the time before it that Go records.
var commits = regexp.MustCompile(`^(.*?)(?:-\d{14})?-([0-9a-f]{7,40})$`)

// AddFlag adds the flag -version, which prints the program's name and version and exits.
func AddFlag(program string) {
	flag.BoolFunc("version", "print the version and exit", func(string) error {
		fmt.Println(program + " " + Own())
		os.Exit(0)
		return nil
	})
}
