// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// filled returns an index of lines of 100 bytes, with colours in every tenth, and how many bytes of
// memory it takes.
func filled(b *testing.B, lines int) (x *index, memory uint64) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := newIndex(b.TempDir(), &room{perLog: 1 << 40, total: 1 << 40}, &share{})
	require.NoError(b, err)
	p := &printed{&Recorder{x}, map[string]int64{}}
	for n := range lines {
		color := "     "
		if n%10 == 0 {
			color = "\x1b[32m"
		}
		if err := p.print(stdout, fmt.Sprintf("%9d %s%085d", n, color, n)); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return x, after.HeapAlloc - before.HeapAlloc
}

func BenchmarkAMillionLinesAreIndexed(b *testing.B) {
	for range b.N {
		x, memory := filled(b, 1_000_000)
		b.ReportMetric(float64(memory), "heap-bytes")
		require.NoError(b, x.close())
	}
}

func BenchmarkRowsInTheMiddleOfAMillion(b *testing.B) {
	x, _ := filled(b, 1_000_000)
	r := httptest.NewRequestWithContext(context.Background(), "GET", "/rows?row=700000", nil)
	for b.Loop() {
		_, err := (&view{index: x}).layout().window(r, 200, nil)
		require.NoError(b, err)
	}
	require.NoError(b, x.close())
}

func BenchmarkSearch(b *testing.B) {
	x, _ := filled(b, 1_000_000)
	for name, search := range map[string]struct {
		text              string
		regexp, matchCase bool
	}{
		"text, case matched": {"no such text", false, true}, "text": {"no such text", false, false}, "expression": {"no such (text|line)", true, true},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(x.bytes)
			for b.Loop() {
				q, err := newQuery(search.text, search.regexp, search.matchCase)
				require.NoError(b, err)
				for from := 0; from < x.records; {
					_, from, err = (&view{index: x}).search(b.Context(), q, from, x.records)
					require.NoError(b, err)
				}
			}
		})
	}
	require.NoError(b, x.close())
}
