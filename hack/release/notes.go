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

const unreleased = "Unreleased"

// notesOf returns the section of a version in a changelog, whose title is the version,
// mostly with a date: "## v0.1.0 - 2026-12-01". A version that isn't released yet, such as
// v0.1.0-rc.1, may have the section Unreleased.
func notesOf(changelog, version string) (string, error) {
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+changelog, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		name, _, _ := strings.Cut(title, " - ")
		sections[name] = text
	}
	text, found := sections[version]
	if !found && strings.Contains(version, "-") {
		text, found = sections[unreleased]
	}
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: give the section %s this name and a date", "## "+version, unreleased)
	}
	return "# entrypointer " + version + "\n\n" + strings.TrimSpace(text) + "\n", nil
}
