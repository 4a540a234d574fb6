// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package grep

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expressions are of all kinds that the automaton tells apart.
var expressions = []string{
	"", "a", "abc", "^", "$", "^$", "^a", "b$", "^ab*$", "a.c", "a|bc", "(ab)+", "a{2,3}", "[^a]", "[^\\x00-\\x7f]", `\bab\b`, `\Bb`, `a\b`, `\b$`, `^\b`, `\w+\s\w`, `\d`, "(?i)abc",
	"(?i)k", "(?i)ſ", "é", "[à-ü]c", `\p{L}{3}`, "世.", ".世$", "\uFFFD", "a\uFFFDb", `\x{1F600}`, "(?s)a.b", `a\nb`, "(?m)^b", `\Aab\z`, `[a\x{10ffff}]$`, "abcabc", "(?:abc|abd)x", "a.*b.*c", "(a|b)*abb", "x*", `\Qa.c\E`,
}

// pieces are what the lines of tests consist of, so that something often matches.
var pieces = []string{"a", "b", "c", "ab", "abc", "abd", "x", " ", "A", "K", "\u212a", "s", "ſ", "é", "ü", "世", "界", "😀", "\xff", "\xe4\xb8", "\x80", "\U0010ffff", "\uFFFD", "1", "_", ".", "\r", "\x00"}

// reference finds lines as Go's own regexp does, line by line.
func reference(text string, re *regexp.Regexp, before, after int) (lines []string) {
	type line struct {
		text     string
		from, to int
	}
	var all []line
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			all = append(all, line{text[at:], at, len(text)})
			break
		}
		all = append(all, line{text[at : at+end], at, at + end + 1})
		at += end + 1
	}
	shown, owed := 0, 0
	show := func(i int, match bool) {
		lines = append(lines, fmt.Sprint(all[i].from, all[i].to, match, all[i].text))
		shown = i + 1
	}
	for i, l := range all {
		switch {
		case re.MatchString(l.text):
			for j := max(shown, i-before); j < i; j++ {
				show(j, false)
			}
			show(i, true)
			owed = after
		case owed > 0:
			show(i, false)
			owed--
		}
	}
	return lines
}

// scan is what a scanner finds in a text that comes in blocks of random lengths.
func scan(t *testing.T, text string, e *Expression, before, after int, random *rand.Rand) (lines []string) {
	t.Helper()
	s := NewScanner(e, before, after, func(l Line) error {
		lines = append(lines, fmt.Sprint(l.From, l.To, l.Match, string(l.Text)))
		return nil
	})
	for at := 0; at < len(text); {
		n := min(1+random.IntN(1+random.IntN(40)), len(text)-at)
		require.NoError(t, s.Write(int64(at), []byte(text[at:at+n])))
		at += n
	}
	require.NoError(t, s.Break())
	return lines
}

func TestALineMatchesAsInPackageRegexp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, expression := range expressions {
		for _, ignoreCase := range []bool{false, true} {
			flag := ""
			if ignoreCase {
				flag = "(?i)"
			}
			re := regexp.MustCompile(flag + expression)
			e, err := Compile(expression, ignoreCase)
			require.NoError(t, err)
			for range 40 {
				var text strings.Builder
				for range random.IntN(60) {
					if text.WriteString(pieces[random.IntN(len(pieces))]); random.IntN(5) == 0 {
						text.WriteByte('\n')
					}
				}
				before, after := random.IntN(3), random.IntN(3)
				require.Equal(t, reference(text.String(), re, before, after), scan(t, text.String(), e, before, after, random), "%q in %q, -B %d -A %d", expression, text.String(), before, after)
			}
		}
	}
}

func FuzzAnExpressionMatchesAsInPackageRegexp(f *testing.F) {
	for _, expression := range expressions {
		f.Add(expression, "abc abd\nab\xffc 世界", uint64(1))
	}
	f.Fuzz(func(t *testing.T, expression, text string, seed uint64) {
		e, err := Compile(expression, false)
		re, errRegexp := regexp.Compile(expression)
		if err != nil || errRegexp != nil {
			return // Compile refuses more
		}
		require.Equal(t, reference(text, re, 1, 1), scan(t, text, e, 1, 1, rand.New(rand.NewPCG(seed, 1))))
	})
}

func TestALineThatIsTooLongToShowIsMatchedAsAWhole(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	long := strings.Repeat("世x", size/4)
	text := "before\n" + long + "needle" + long + "\nafter\n" + long + "\nneedle, too\n" + long + "needle"
	for expression, want := range map[string][]string{
		"needle":      {"before", "!世x", "after", "!needle, too", "!世x"}, // a long line isn't shown in front of another
		"^世.*x$":      {"before", "!世x", "after", "!世x", "needle, too"},
		"x世xneedle世x": {"before", "!世x", "after"},
	} {
		e, err := Compile(expression, false)
		require.NoError(t, err)
		var got []string
		s := NewScanner(e, 1, 1, func(l Line) error {
			mark := ""
			if l.Match {
				mark = "!"
			}
			if l.IsCut() {
				require.Len(t, l.Text, MaxText)
				require.Equal(t, text[l.From:l.From+MaxText], string(l.Text))
				got = append(got, mark+string(l.Text[:4]))
			} else {
				got = append(got, mark+string(l.Text))
			}
			return nil
		})
		for at := 0; at < len(text); at += 30001 { // splits characters
			require.NoError(t, s.Write(int64(at), []byte(text[at:min(at+30001, len(text))])))
		}
		require.NoError(t, s.Break())
		require.Equal(t, want, got, expression)
	}
}

func TestAScanTakesNoMemoryForEachLineOrForALongOne(t *testing.T) {
	e, err := Compile(`(a|b)*a(a|b){12}$`, false) // of some 8000 states
	require.NoError(t, err)
	found := 0
	s := NewScanner(e, 2, 2, func(Line) error { found++; return nil })
	random := rand.New(rand.NewPCG(3, 4))
	block := make([]byte, 16<<10)
	for i := range block {
		block[i] = "ab\n"[min(random.IntN(100), 1)]
		if i%977 == 0 {
			block[i] = '\n'
		}
	}
	at := int64(0)
	write := func(block []byte, times int) {
		for range times {
			require.NoError(t, s.Write(at, block))
			at += int64(len(block))
		}
	}
	write(block, 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	write(block, 10)
	write(bytes.Repeat([]byte("a"), 16<<10), 640) // 10 MiB without a newline
	write(block, 10)
	runtime.ReadMemStats(&after)
	require.Positive(t, found)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "the states are made")
	require.LessOrEqual(t, cap(s.buffer), 2*compactFrom)
}

func TestStatesBeyondTheMemoryAreMadeAnew(t *testing.T) {
	t.Parallel()
	const expression = `(a|b)*a(a|b){40}c`
	e, err := Compile(expression, false)
	require.NoError(t, err)
	re := regexp.MustCompile(expression)
	s := NewScanner(e, 0, 0, nil)
	random := rand.New(rand.NewPCG(5, 6))
	line := make([]byte, 100)
	most := 0
	for at := int64(0); at < 40_000; at += int64(len(line)) {
		for i := range line[:98] {
			line[i] = "ab"[random.IntN(2)]
		}
		line[98], line[99] = "abc"[random.IntN(3)], '\n'
		matches := 0
		s.found = func(Line) error { matches++; return nil }
		require.NoError(t, s.Write(at, line))
		require.Equal(t, re.Match(line[:99]), matches == 1)
		most = max(most, s.automaton.bytes)
	}
	require.LessOrEqual(t, most, maxTable+maxTable/10)
	require.Greater(t, most, maxTable/2, "the memory was needed")
}

func TestALineEndsWhereBytesAreMissing(t *testing.T) {
	t.Parallel()
	e, err := Compile("ab", false)
	require.NoError(t, err)
	var got []string
	s := NewScanner(e, 1, 1, func(l Line) error { got = append(got, fmt.Sprint(l.From, l.To, l.Match)); return nil })
	require.NoError(t, s.Write(5, []byte("x\nxa")))
	require.NoError(t, s.Write(10, []byte("b\nab")))
	require.NoError(t, s.Write(20, []byte("x\n")))
	require.NoError(t, s.Break())
	require.NoError(t, s.Write(0, []byte("ab\n")), "another stream")
	require.Equal(t, []string{"10 12 false", "12 14 true", "0 3 true"}, got)
}

func TestTheErrorOfWhoTakesLinesEndsAScan(t *testing.T) {
	t.Parallel()
	e, err := Compile("a", false)
	require.NoError(t, err)
	failed := fmt.Errorf("no more")
	for _, text := range []string{"x\na\n", "x\na", strings.Repeat("a", MaxText+1) + "\n"} {
		s := NewScanner(e, 1, 0, func(Line) error { return failed })
		err := s.Write(0, []byte(text))
		if err == nil {
			err = s.Break()
		}
		require.ErrorIs(t, err, failed)
	}
}

func TestExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		strings.Repeat("a", MaxExpression+1): "use 1024 at most", "(a{100}){100}": "invalid repeat count", "((a|b){300}c{200}){2}": "fewer or shorter repetitions", "(": "missing closing )",
	} {
		_, err := Compile(text, false)
		require.ErrorContains(t, err, says)
	}
}

func TestBytesThatEachMatchHasAreKnown(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"error": "error", "^(warning|error): disk": ": disk", "(?i)error": "", "error|warning": "", "(error)+": "error", "(error)*": "", "(error){2}": "error", "(error){0,2}": "", "ab": "", "a\uFFFDbcde": "bcde",
		`level=error.*request_id=\d+`: "level=error", "x?timeout": "timeout",
	} {
		e, err := Compile(expression, false)
		require.NoError(t, err)
		require.Equal(t, want, string(e.literal), expression)
	}
}
