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

	semantic "k8s.io/apimachinery/pkg/util/version"
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

// IsRelease reports whether a version is that of a release: a commit has none of its files.
func IsRelease(version string) bool {
	_, commit := cut(version)
	_, err := semantic.ParseSemantic(version)
	return err == nil && commit == "" && !strings.Contains(version, "+")
}

// Applies returns the command by which an operator installs a part, a folder of config, in a
// version: from the folder of a release, or else from a checkout.
func Applies(version, part string) string {
	if IsRelease(version) {
		return "kubectl apply -f " + part + ".yaml"
	}
	return "ko apply -f config/" + part
}

// Older reports whether a version is older than another one, if that is known: of commits
// after the same tag, it isn't, and of a commit without a tag, which has v0.0.0.
func Older(a, b string) (older, known bool) {
	var parsed [2]*semantic.Version
	for at, v := range []string{a, b} {
		tag, commit := cut(v)
		var err error
		if parsed[at], err = semantic.ParseSemantic(tag); err != nil || commit != "" && tag == "v0.0.0" {
			return false, false
		}
	}
	return parsed[0].LessThan(parsed[1]), !parsed[0].EqualTo(parsed[1])
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
