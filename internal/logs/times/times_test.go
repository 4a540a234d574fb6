// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package times

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const now = 1_795_000_000_000

func TestTimesComeBackFromTheHeaderOfAMember(t *testing.T) {
	t.Parallel()
	many := make([]Mark, 0, 2*Most)
	for i := range int64(2 * Most) {
		many = append(many, Mark{1000 + i*70_000, now + i*5})
	}
	wide := make([]Mark, 0, Most)
	for i := range int64(Most) {
		wide = append(wide, Mark{1000 + i<<50, i << 35})
	}
	for name, test := range map[string]struct{ marks, want []Mark }{
		"one":                 {[]Mark{{1000, now}}, []Mark{{1000, now}}},
		"several":             {[]Mark{{1000, now}, {1001, now}, {5000, now + 7}}, []Mark{{1000, now}, {1001, now}, {5000, now + 7}}},
		"one of before":       {[]Mark{{10, now}, {1001, now + 1}}, []Mark{{1000, now}, {1001, now + 1}}},
		"disordered":          {[]Mark{{1000, now}, {1010, now - 9}, {1005, now}, {1020, now + 1}}, []Mark{{1000, now}, {1010, now}, {1020, now + 1}}},
		"too many":            {many, many[:Most]},
		"before 1970":         {[]Mark{{1000, -5}, {1001, 3}}, []Mark{{1000, 0}, {1001, 3}}},
		"after the year 9999": {[]Mark{{1000, math.MaxInt64}, {1001, math.MaxInt64}}, []Mark{{1000, latest}, {1001, latest}}},
		"none":                {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			extra := Encode(1000, test.marks)
			require.Equal(t, test.want, Decode(extra, 1000, math.MaxInt64))
			require.Equal(t, test.want, Decode(append([]byte("zz\x02\x00ab"), extra...), 1000, math.MaxInt64), "behind another's field")
		})
	}
	extra := Encode(1000, wide)
	require.LessOrEqual(t, len(extra), MaxExtra)
	require.Equal(t, wide, Decode(extra, 1000, math.MaxInt64), "as far from each other as they can be")
}

func TestAMemberWithTimesHasTheSameBytes(t *testing.T) {
	t.Parallel()
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	w.Extra = Encode(0, []Mark{{0, now}, {3, now + 1}})
	_, err := w.Write([]byte("onetwo"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r, err := gzip.NewReader(&member)
	require.NoError(t, err)
	require.Equal(t, []Mark{{7, now}, {10, now + 1}}, Decode(r.Extra, 7, 13))
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "onetwo", string(data))
}

func TestInvalidTimesAreIgnored(t *testing.T) {
	t.Parallel()
	good := Encode(0, []Mark{{0, now}, {3, now + 1}, {5, now + 2}})
	require.Len(t, Decode(good, 0, 6), 3)
	for name, extra := range map[string][]byte{
		"nothing":                 {},
		"another's":               []byte("zz\x01\x00a"),
		"no length":               []byte("ep"),
		"an empty field":          []byte("ep\x00\x00"),
		"longer than it is":       []byte("ep\x09\x00a"),
		"cut in a number":         []byte("ep\x01\x00\xff"),
		"cut between two numbers": []byte("ep\x02\x00\x05\x01"),
		"twice the same offset":   []byte("ep\x03\x00\x05\x00\x01"),
		"behind the last byte":    []byte("ep\x03\x00\x05\x06\x01"),
		"an overflow":             []byte("ep\x0d\x00\x05\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
		"a far offset":            []byte("ep\x0c\x00\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
		"a far time":              []byte("ep\x0a\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
	} {
		require.Nil(t, Decode(extra, 0, 6), name)
	}
	require.Nil(t, Decode(good, 0, 5), "the last mark is behind the last byte")
	require.Nil(t, Decode(good, 6, 6), "of no bytes")
}

func FuzzTimesAreInOrderWhateverIsSent(f *testing.F) {
	f.Add(Encode(0, []Mark{{0, now}, {3, now + 1}}), int64(0), int64(6))
	f.Add([]byte("zz\x02\x00abep\x03\x00\x05\x01\x01"), int64(5), int64(9))
	f.Fuzz(func(t *testing.T, extra []byte, from, to int64) {
		if from < 0 || to < 0 {
			return
		}
		marks := Decode(extra, from, to)
		for i, m := range marks {
			if i == 0 {
				require.Equal(t, from, m.At)
			} else {
				require.Greater(t, m.At, marks[i-1].At)
				require.GreaterOrEqual(t, m.Time, marks[i-1].Time)
			}
			require.Less(t, m.At, to)
			require.LessOrEqual(t, m.Time, int64(latest))
		}
		if len(marks) > 0 && len(extra) <= MaxExtra {
			require.Equal(t, marks, Decode(Encode(from, marks), from, to))
		}
	})
}

func TestMarksAreCutWithTheirBytes(t *testing.T) {
	t.Parallel()
	marks := []Mark{{10, 1}, {20, 2}, {30, 3}}
	for _, test := range []struct {
		from, to int64
		want     []Mark
	}{
		{10, 40, marks},
		{10, 20, []Mark{{10, 1}}},
		{10, 21, []Mark{{10, 1}, {20, 2}}},
		{15, 35, []Mark{{15, 1}, {20, 2}, {30, 3}}},
		{20, 25, []Mark{{20, 2}}},
		{25, 30, []Mark{{25, 2}}},
		{50, 60, []Mark{{50, 3}}},
		{5, 15, []Mark{{5, 1}}},
		{5, 10, nil},
		{20, 20, nil},
		{40, 30, nil},
	} {
		require.Equal(t, test.want, Cut(marks, test.from, test.to), "%d to %d", test.from, test.to)
	}
	require.Nil(t, Cut(nil, 0, 5))
	require.Equal(t, []Mark{{10, 1}, {20, 2}, {30, 3}}, marks)
}

func TestNothingButTheStandardLibraryIsImported(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	require.Equal(t, "github.com/entrypointer/entrypointer/internal/logs/times", strings.TrimSpace(string(out)))
}
