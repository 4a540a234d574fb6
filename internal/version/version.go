// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells the version of a program that doesn't run in other people's pods.
// Those have internal/supervisor's, which needs fewer packages.
package version

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
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

// AddFlag adds the flag -version, which prints the program's name and version and exits.
func AddFlag(program string) {
	flag.BoolFunc("version", "print the version and exit", func(string) error {
		fmt.Println(program + " " + Own())
		os.Exit(0)
		return nil
	})
}
