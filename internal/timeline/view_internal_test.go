// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAxisHasFewTicksWhateverItsLength(t *testing.T) {
	t.Parallel()
	for whole, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 13 * time.Millisecond: 2 * time.Millisecond, 13 * time.Second: 2 * time.Second,
		time.Minute: 10 * time.Second, time.Hour: 500 * time.Second, math.MaxInt64: longestTick,
	} {
		got := tickOf(whole, mostTicks)
		require.Equal(t, want, got)
		require.LessOrEqual(t, int64(whole/got), int64(100))
	}
}

func TestADurationIsNoMorePreciseThanItsSource(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration][2]string{
		0: {"<1 ms", "<1 s"}, 999 * time.Microsecond: {"<1 ms", "<1 s"}, 853 * time.Millisecond: {"853 ms", "~1 s"}, 4754 * time.Millisecond: {"4.75 s", "~5 s"}, 150400 * time.Millisecond: {"2m30s", "~2m30s"},
	} {
		require.Equal(t, want, [2]string{length(d, false), length(d, true)})
	}
}

func TestShortSpansAreSeenOverLongOnes(t *testing.T) {
	t.Parallel()
	g := group{from: at(0), to: at(100000)}
	require.Equal(t, "##+#######", g.characters([]Span{{Kind: Hook, From: at(20000), To: at(20001)}, {Kind: Running, From: at(0)}}, 10))
	require.Equal(t, "         .", g.characters([]Span{{Kind: Waiting, From: at(100000), To: at(100000)}}, 10))
	require.Equal(t, "..........", g.characters([]Span{{Kind: Waiting, From: at(-5000), To: at(999999)}}, 10))
}

func TestLongTextIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	require.Len(t, cut(long, longestLabel), longestLabel)
	require.Len(t, short(long), longestReason+len("..."))
	require.Equal(t, `\x1b[2J\n`, short("\x1b[2J\n"))
}

func TestALineIsFoldedBetweenWordsAndAWordAnywhere(t *testing.T) {
	t.Parallel()
	require.Equal(t, "  one two\n    three\n", folded("  one two three\n", 10))
	require.Equal(t, "note:\n    abcdef\n    ghijkl\n    mn op\n", folded("note: abcdefghijklmn op\n", 10))
	require.Equal(t, "ran for\n    ~12 s\n", folded("ran for ~12 s\n", 11), "a unit stays with its number")
	require.Equal(t, "äöüäöü\n", folded("äöüäöü\n", 6), "letters count, and not bytes")
	require.Equal(t, "exactly te\n\n", folded("exactly te\n\n", 10))
}

func TestTheNumbersOfTheScaleDontTouch(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]string{
		1: "0s        500ms", 13: "0s             10s", 3600: "0s         33m20s",
	} {
		g := group{from: at(0), to: at(1000 * seconds)}
		require.Equal(t, want, g.scale(20))
	}
	g := group{from: at(0), to: at(0).Add(math.MaxInt64)}
	require.Less(t, len(g.scale(900)), 900)
}

func TestAnEndThatTookNoTimeIsntSaid(t *testing.T) {
	t.Parallel()
	brief := func(kind Kind, precision string) Span {
		return Span{Kind: kind, From: at(0), To: at(0).Add(time.Microsecond), Precision: precision}
	}
	require.Equal(t, "waited <1 ms, ran <1 ms", sums([]Span{brief(Waiting, ""), brief(Running, ""), brief(Ending, "")}, at(1000)))
	require.Equal(t, "pulled <1 s, ran <1 ms", sums([]Span{brief(Pulling, wholeSeconds), brief(Running, "")}, at(1000)))
}
