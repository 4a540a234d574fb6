// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// writeNotes writes what the changelog says of the version.
func (r *release) writeNotes(context.Context) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := notesOf(string(changelog), r.version)
	if err != nil {
		return err
	}
	return r.write("NOTES.md", []byte(notes))
}

// notesOf returns the section of a version in a changelog. A version that isn't released yet,
// such as v0.1.0-rc.1, may have the section Unreleased.
func notesOf(changelog, version string) (string, error) {
	for _, title := range []string{version, "Unreleased"} {
		_, section, found := strings.Cut("\n"+changelog, "\n## "+title+"\n")
		if !found || title == "Unreleased" && !strings.Contains(version, "-") {
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		return "# entrypointer " + version + "\n\n" + strings.TrimSpace(section) + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q: give the section Unreleased this name", "## "+version)
}
