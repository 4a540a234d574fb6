// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// VersionLabel is the label of the objects of a release, and of its pods, with its version.
// What ko apply has applied from a checkout doesn't have it.
const VersionLabel = "app.kubernetes.io/version"

// WithVersion returns a manifest of this package with the label of a version on each object,
// and on the pods of Deployments. Selectors stay as they are, and so do comments.
func WithVersion(manifest, version string) string {
	label := VersionLabel + ": " + version + "\n"
	var labelled strings.Builder
	field := "" // of the object, in which the line is
	for line := range strings.Lines(manifest) {
		if name, _, found := strings.Cut(line, ":"); found && !strings.ContainsAny(name, " #") {
			field = name
		}
		labelled.WriteString(line)
		if field == "metadata" && line == "  labels:\n" {
			labelled.WriteString("    " + label)
		}
	}
	const podLabels = "\n  template:\n    metadata:\n      labels:\n"
	return strings.ReplaceAll(labelled.String(), podLabels, podLabels+"        "+label)
}
