// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALineIsFoundWhereItsMatchesAreMarked(t *testing.T) {
	t.Parallel()
	for _, search := range []struct {
		text                    string
		isExpression, matchCase bool
	}{
		{"refused|timed out", true, false},
		{"refused|timed out", true, true},
		{`^\[[0-9]+\] .*done$`, true, true},
		{`\bÉtat\b`, true, false},
		{"É|x", false, false},
		{"(?-i)Refused", true, false},
		{"done", false, false},
	} {
		q, err := newQuery(search.text, search.isExpression, search.matchCase)
		require.NoError(t, err)
		for _, line := range []string{
			"", "connection Refused", "connection refused", "TIMED OUT", "[12] all done", "[12] all done ", "l'état", "étatique", "É|X", "é|x", "\xff",
		} {
			require.Equal(t, len(q.all([]byte(line))) > 0, q.has([]byte(line)), "%+v in %q", search, line)
		}
	}
}

func TestWhatIsSearchedForIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text         string
		isExpression bool
		err          string
	}{
		"a text of the longest length":                         {strings.Repeat("x", longestQuery), false, ""},
		"one with characters that have two cases":              {strings.Repeat("x", longestQuery-2) + "É", false, ""},
		"a longer text":                                        {strings.Repeat("x", longestQuery+1), false, "use at most 900"},
		"an expression that is no RE2":                         {"(", true, "use the syntax of RE2"},
		"an expression that is many times as long as its text": {"(ab){600}", true, "with fewer or shorter repetitions"},
	} {
		_, err := newQuery(test.text, test.isExpression, false)
		if test.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.err, name)
		}
	}
}
