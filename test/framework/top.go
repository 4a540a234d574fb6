// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/entrypointer/entrypointer/test/markdown"
)

// module is the first line of the go.mod in the top directory.
const module = "module github.com/entrypointer/entrypointer\n"

// RepositoryRoot is the top directory of the repository that the current directory is in.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding config/ and examples/: the current directory is not in a checkout of entrypointer; change into one")
		}
		dir = parent
	}
}

// Pages that have sections made by commands, by their paths in the repository.
const (
	README     = "README.md"
	Benchmarks = "docs/benchmarks.md"
	Logs       = "docs/logs.md"
	Chaos      = "docs/chaos.md"
)

// ReplaceIn replaces a section of a page by text that was made.
func ReplaceIn(file, section, text string) error {
	top, err := RepositoryRoot()
	if err != nil {
		return err
	}
	return markdown.ReplaceSection(filepath.Join(top, filepath.FromSlash(file)), section, text)
}
