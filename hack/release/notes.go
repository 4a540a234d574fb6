// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/entrypointer/entrypointer/test/api"
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

// checkAPI returns an error unless test/api/released has what the packages for other operators
// export in this commit: the next changes are compared with it. A version such as v0.1.0-rc.1
// is no release to be compared with.
func (r *release) checkAPI(context.Context) error {
	if strings.Contains(r.version, "-") {
		return nil
	}
	for _, pkg := range api.Packages {
		exported, err := os.ReadFile("test/api/" + pkg + ".txt")
		if err != nil {
			return err
		}
		released, err := os.ReadFile("test/api/released/" + pkg + ".txt")
		if err != nil || !bytes.Equal(exported, released) {
			return fmt.Errorf("test/api/released/%s.txt isn't what this commit exports: run mkdir -p test/api/released && cp test/api/*.txt test/api/released, and commit that", pkg)
		}
	}
	return nil
}
