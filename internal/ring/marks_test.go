// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// ticking gives a writer a clock that the test sets.
func ticking(w *Writer) (set func(milliseconds int64)) {
	var now int64
	w.clock = func() time.Time { return time.UnixMilli(now) }
	return func(milliseconds int64) { now = milliseconds }
}

func TestBytesHaveTheTimeOfWriting(t *testing.T) {
	w, r, _ := open(t)
	set := ticking(w)
	for _, came := range []struct {
		at   int64
		text string
	}{{100, "aaaaa"}, {100, "bbbbb"}, {105, "ccccc"}, {90, "ddddd"}, {110, "eeeee"}} {
		set(came.at)
		w.Write(Stdout, []byte(came.text))
	}
	set(107)
	w.Write(Stderr, []byte("z"))
	for _, test := range []struct {
		from, to int64
		want     []times.Mark
	}{
		{0, 25, []times.Mark{{At: 0, Time: 100}, {At: 10, Time: 105}, {At: 20, Time: 110}}}, // the clock's step back shows nowhere
		{3, 12, []times.Mark{{At: 3, Time: 100}, {At: 10, Time: 105}}},
		{12, 20, []times.Mark{{At: 12, Time: 105}}},
		{20, 25, []times.Mark{{At: 20, Time: 110}}},
		{3, 3, []times.Mark{{At: 3, Time: 100}}},
	} {
		require.Equal(t, test.want, r.Marks(Stdout, test.from, test.to), "%d to %d", test.from, test.to)
	}
	require.Equal(t, []times.Mark{{At: 0, Time: 110}}, r.Marks(Stderr, 0, 1), "no stream is before another")
	require.Empty(t, r.Marks(Events, 0, 1))
}

func TestBytesThatAreReadLateHaveTheTimeAtWhichTheyCame(t *testing.T) {
	w, r, _ := open(t)
	set := ticking(w)
	set(100)
	w.Write(Stdout, []byte("a"))
	set(200)
	w.ComesAt(time.UnixMilli(150))
	w.Write(Stderr, []byte("b"))
	w.ComesAt(time.UnixMilli(120))
	w.Write(Stdout, []byte("c"))
	w.ComesAt(time.UnixMilli(300))
	w.Write(Stdout, []byte("d"))
	w.ComesAt(time.Time{})
	set(250)
	w.Write(Stdout, []byte("e"))
	require.Equal(t, []times.Mark{{At: 0, Time: 150}}, r.Marks(Stderr, 0, 1))
	require.Equal(t, []times.Mark{{At: 0, Time: 100}, {At: 1, Time: 150}, {At: 2, Time: 200}, {At: 3, Time: 250}}, r.Marks(Stdout, 0, 4),
		"neither before an earlier byte nor in the future")
}

func TestBytesWhoseMarkWasOverwrittenGetTheNextMark(t *testing.T) {
	w, r, _ := open(t)
	set := ticking(w)
	const count = MaxMarks + 10
	for i := range int64(count) {
		set(i)
		w.Write(Stdout, []byte("ab"))
	}
	got := r.Marks(Stdout, 0, 2*count)
	require.Equal(t, times.Mark{At: 0, Time: 11}, got[0], "one more than was overwritten may be about to be")
	require.Equal(t, times.Mark{At: 24, Time: 12}, got[1])
	require.Len(t, got, MaxMarks-1)
}

func TestAReaderSeesOnlyMarksThatWereWritten(t *testing.T) {
	w, r, _ := open(t)
	set := ticking(w)
	const total = 300_000
	go func() {
		for i := range int64(total) {
			set(i)
			w.Write(Stdout, []byte("abc")) // the byte at 3n came at n
		}
		w.End(Stdout)
	}()
	for {
		written, ended := r.Written(Stdout)
		for i, m := range r.Marks(Stdout, max(written-5000, 0), written) {
			if i > 0 {
				require.Equal(t, m.At, 3*m.Time)
			} else {
				require.GreaterOrEqual(t, m.Time, m.At/3)
			}
		}
		if ended {
			return
		}
	}
}

func TestMarksThatSomebodyHasScribbledOverCostTheTimesAlone(t *testing.T) {
	w, r, _ := open(t)
	set := ticking(w)
	for i := range int64(10) {
		set(i)
		w.Write(Stdout, []byte("ab"))
	}
	for _, value := range []int64{-1, 0, 7, math.MaxInt64, math.MinInt64} {
		marks := r.marks(Stdout)
		for i := range marks {
			marks[i].at.Store(value)
			marks[i].time.Store(value)
		}
		for _, count := range []int64{-1, 5, MaxMarks, math.MaxInt64, math.MinInt64} {
			r.streams[Stdout].markCount.Store(count)
			got := r.Marks(Stdout, 3, 9)
			for i, m := range got {
				require.GreaterOrEqual(t, m.At, int64(3))
				require.Less(t, m.At, int64(9))
				require.True(t, i == 0 || m.At > got[i-1].At && m.Time >= got[i-1].Time)
			}
			w.Write(Stdout, []byte("c")) // harms nobody
		}
	}
}
