// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package printable_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/printable"
)

func TestNothingMovesTheCursorOrHides(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain \u00a0\u3000 text\n\tindented": "plain \u00a0\u3000 text\n\tindented",
		"\x1b[2J":                             `\x1b[2J`,
		"\u009b2J\x7f\r":                      `\u009b2J\x7f\r`,
		"a\u202eb\u2028c\u200bd":              `a\u202eb\u2028c\u200bd`,
		"\xff":                                `\xff`,
	} {
		require.Equal(t, want, printable.Text(text))
	}
	require.Equal(t, `a\n  next: rm`, printable.Line("a\n  next: rm"))
}

func TestADocumentKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	const value = "\u009b\u202e\U000e0001\x7f\u00a0"
	document, err := json.MarshalIndent(map[string]string{"key": value}, "", "  ")
	require.NoError(t, err)
	safe := printable.JSON(string(document))
	require.Contains(t, safe, "\\u009b\\u202e\\udb40\\udc01\\u007f\u00a0")
	var decoded map[string]string
	require.NoError(t, json.Unmarshal([]byte(safe), &decoded))
	require.Equal(t, value, decoded["key"])
}
