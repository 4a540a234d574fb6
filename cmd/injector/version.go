// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "runtime/debug"

// linkedVersion is set when a release is linked: -ldflags "-X main.linkedVersion=v1.2.3".
var linkedVersion = ""

// versionOf returns the linked version, or else the version of the main module in Go's
// build information: a version, or a pseudo-version with the commit; or else devel.
func versionOf(linked string, build *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case build != nil && build.Main.Version != "" && build.Main.Version != "(devel)":
		return build.Main.Version
	default:
		return "devel"
	}
}

func ownVersion() string {
	build, _ := debug.ReadBuildInfo()
	return versionOf(linkedVersion, build)
}
