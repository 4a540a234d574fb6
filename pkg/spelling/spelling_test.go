// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/spelling"
)

func TestTheNearestWordIsAtMostTwoLettersAway(t *testing.T) {
	known := []string{"timeout", "mode", "logs", "off", "Tekton", "env", "containers"}
	for mistake, want := range map[string]string{
		"timeout":                          "timeout",
		"tiemout":                          "timeout",
		"timout":                           "timeout",
		"tmeot":                            "timeout",
		"tekton":                           "Tekton",
		"TIMEOUT":                          "timeout",
		"containres":                       "containers",
		"mod":                              "mode",
		"on":                               "", // off differs by more than half of its letters
		"colour":                           "",
		"":                                 "",
		"tïmeout":                          "timeout",
		strings.Repeat("timeout", 100_000): "",
	} {
		require.Equal(t, want, spelling.Nearest(mistake, known), mistake[:min(len(mistake), 20)])
	}
	require.Equal(t, "there", spelling.Nearest("thera", []string{"three", "there", "threa"}), "the nearest, and of several the first")
}

func TestASuggestionIsTheEndOfAnError(t *testing.T) {
	require.Equal(t, `; did you mean "exec"?`, spelling.DidYouMean("exce", []string{"supervise", "exec"}))
	require.Empty(t, spelling.DidYouMean("replace", []string{"supervise", "exec"}))
}
