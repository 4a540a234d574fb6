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

func TestSimilarNamesAreThoseOfTheSameFamily(t *testing.T) {
	known := []string{"web-7d4b9c6d8-x2v4q", "web-7d4b9c6d8-9kq2l", "web-6c5f4d7b9-lm8wz", "db-0", "report", "report-29929875-abcde", "report"}
	for mistake, want := range map[string][]string{
		"web-7d4b9c6d8-abcde":              {"web-7d4b9c6d8-x2v4q", "web-7d4b9c6d8-9kq2l"}, // it never was
		"web-7d4b9c6d8-x2v4":               {"web-7d4b9c6d8-x2v4q", "web-7d4b9c6d8-9kq2l"},
		"web":                              {"web-7d4b9c6d8-x2v4q", "web-7d4b9c6d8-9kq2l", "web-6c5f4d7b9-lm8wz"},
		"db-1":                             {"db-0"},
		"reprot":                           {"report"},
		"repor":                            {"report", "report-29929875-abcde"},
		"webserver-of-another-team-7d4b9c": nil,
		"":                                 nil,
		strings.Repeat("web-", 100_000):    nil,
	} {
		require.Equal(t, want, spelling.Similar(mistake, known, 3), mistake[:min(len(mistake), 20)])
	}
	require.Len(t, spelling.Similar("web", known, 2), 2)
}
