// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASectionIsReplacedAndNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n<!-- begin table -->\nold\n<!-- end table -->\nafter\n"), 0o600))
	require.NoError(t, ReplaceSection(file, "table", "new\n"))
	content, err := Section(file, "table")
	require.NoError(t, err)
	require.Equal(t, "new\n", content)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n<!-- begin table -->\nnew\n<!-- end table -->\nafter\n", string(page))
	require.ErrorContains(t, ReplaceSection(file, "other", "new\n"), "put them where it belongs")
}

func TestTheFirstSentenceOfATextEndsWithAFullStop(t *testing.T) {
	for text, want := range map[string]string{
		"One.":                "One.",
		"One. Two.":           "One.",
		"Version 1.35 does:":  "Version 1.35 does.",
		"One, of two:\n\n- a": "One, of two.",
	} {
		require.Equal(t, want, FirstSentence(text))
	}
}
