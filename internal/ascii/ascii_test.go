// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package ascii_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/ascii"
)

func TestWordsAreComparedWithoutTheCaseOfASCIILetters(t *testing.T) {
	for first := range byte(utf8.RuneSelf) {
		for second := range byte(utf8.RuneSelf) {
			a, b := "x"+string(rune(first)), "X"+string(rune(second))
			require.Equal(t, strings.EqualFold(a, b), ascii.EqualFold(a, b), "%q %q", a, b)
		}
	}
	require.False(t, ascii.EqualFold("host", "hosts"))
	require.False(t, ascii.EqualFold("ſ", "s"))
	require.False(t, ascii.EqualFold("\u212a", "k"), "Kelvin")
}
