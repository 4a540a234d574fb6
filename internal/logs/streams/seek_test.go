// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// counted counts the calls of a bucket.
type counted struct {
	storage.Bucket
	reads []string // without those of ends
	lists int
}

// Read implements storage.Bucket.
func (c *counted) Read(ctx context.Context, key string) ([]byte, error) {
	if !strings.HasSuffix(key, "/end") {
		c.reads = append(c.reads, key)
	}
	return c.Bucket.Read(ctx, key)
}

// Walk implements storage.Bucket.
func (c *counted) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	c.lists++
	return c.Bucket.Walk(ctx, directory, after, each)
}

// A said is a line that a container has printed, at a time of its node's clock and of the
// storage's.
type said struct {
	text          string
	printed, kept time.Time
}

// within returns the lines of a stream in a span, and whether it ended with the span.
func within(t *testing.T, s *Store, id string, span Span) (lines []string, ended bool) {
	t.Helper()
	r := s.Reader(id, 0)
	require.NoError(t, r.Seek(t.Context(), span))
	text := ""
	for {
		part, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) || errors.Is(err, ErrNotYet) {
			return strings.Fields(text), errors.Is(err, io.EOF)
		}
		require.NoError(t, err)
		text += string(part.Data)
		if part.Data == nil {
			text += fmt.Sprintf("gap-of-%d\n", part.Len())
		}
	}
}

// joinedOf stores lines as a joined object that was made at a time.
func joinedOf(t *testing.T, m *memory, id string, from int64, made time.Time, lines ...said) (to int64) {
	t.Helper()
	j := &joinedObject{name: Range{from, from}}
	for _, l := range lines {
		data := []byte(l.text + "\n")
		r := Range{j.name.To, j.name.To + int64(len(data))}
		var content bytes.Buffer
		require.NoError(t, compress(&content, data, times.Encode(r.From, []times.Mark{{At: r.From, Time: l.printed.UnixMilli()}})))
		j.add(member{counts: r, object: r, content: content.Bytes(), written: l.kept}, r)
		j.name.To = r.To
	}
	object, err := j.encode()
	require.NoError(t, err)
	m.now = made
	require.NoError(t, m.Create(t.Context(), directory(id)+"joined/"+rangeName(j.name), object))
	return j.name.To
}

// write stores lines as an object each, and returns the offset behind them.
func write(t *testing.T, m *memory, s *Store, id string, at int64, lines ...said) int64 {
	t.Helper()
	for _, l := range lines {
		m.now = l.kept
		data := []byte(l.text + "\n")
		require.NoError(t, s.Write(t.Context(), id, at, data, times.Mark{At: at, Time: l.printed.UnixMilli()}))
		at += int64(len(data))
	}
	return at
}

func TestAnHourOfAMonthCostsAListingAndAFewObjects(t *testing.T) {
	m, s, id := openMemory(t)
	c := &counted{Bucket: m}
	s.bucket = c
	begin, at := m.now, int64(0)
	const objects, apart = 180, 4 * time.Hour
	for i := range objects {
		var lines []said
		for minute := 10 * time.Minute; minute <= apart; minute += 10 * time.Minute { // many writes in each object
			now := begin.Add(time.Duration(i)*apart + minute)
			lines = append(lines, said{now.Format("2T15:04"), now, now.Add(30 * time.Second)})
		}
		at = joinedOf(t, m, id, at, begin.Add(time.Duration(i+1)*apart+2*settleTime), lines...)
	}
	most := 0
	for _, day := range []int{0, 1, 7, 15, 23, 29} {
		for _, hour := range []int{1, 3, 5, 12, 18, 22} {
			c.reads, c.lists = nil, 0
			since := begin.Add(time.Duration(24*day+hour) * time.Hour)
			lines, ended := within(t, s, id, Span{since, since.Add(time.Hour)})
			require.True(t, ended)
			want := []string{}
			for minute := -10 * time.Minute; minute < time.Hour; minute += 10 * time.Minute { // and what was printed before
				want = append(want, since.Add(minute).Format("2T15:04"))
			}
			require.Equal(t, want, lines)
			require.Equal(t, 1, c.lists)
			most = max(most, len(c.reads))
		}
	}
	require.LessOrEqual(t, most, 11)
	t.Logf("%d objects are read at most", most)
}

func TestWhatWasJustStoredIsFoundByTheListing(t *testing.T) {
	m, s, id := openMemory(t)
	begin, at := m.now, int64(0)
	for i := range 64 {
		now := begin.Add(time.Duration(i) * time.Minute)
		at = write(t, m, s, id, at, said{fmt.Sprint(i), now, now.Add(time.Second)})
	}
	c := &counted{Bucket: m}
	s.bucket = c
	lines, _ := within(t, s, id, Span{Since: begin.Add(60 * time.Minute)})
	require.Equal(t, []string{"59", "60", "61", "62", "63"}, lines)
	require.LessOrEqual(t, len(c.reads), 5+6)
}

func TestASpanOfAStream(t *testing.T) {
	m, s, id := openMemory(t)
	begin := m.now
	minute := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
	line := func(i int) said { return said{fmt.Sprint(i), minute(i), minute(i).Add(time.Second)} }
	at := write(t, m, s, id, 0, line(0), line(1), line(2), line(3))
	require.NoError(t, s.Drop(t.Context(), id, Range{at, at + 10}))
	write(t, m, s, id, at+10, line(4), line(5))
	for _, test := range []struct {
		since, until int
		want         string
		ended        bool
	}{
		{2, 4, "1 2 3 gap-of-10", true},
		{4, 5, "3 gap-of-10 4", true},
		{4, 99, "3 gap-of-10 4 5", false},
		{0, 2, "0 1", true},
		{5, 6, "4 5", false},
		{6, 7, "5", false}, // more can come
		{-9, -8, "", true},
		{-9, 1, "0", true},
	} {
		lines, ended := within(t, s, id, Span{minute(test.since), minute(test.until)})
		require.Equal(t, strings.Fields(test.want), append([]string{}, lines...), "%d to %d", test.since, test.until)
		require.Equal(t, test.ended, ended, "%d to %d", test.since, test.until)
	}
	lines, ended := within(t, s, id, Span{Until: minute(1)})
	require.Equal(t, []string{"0"}, lines)
	require.True(t, ended)
	lines, _ = within(t, s, id, Span{})
	require.Len(t, lines, 7)
}

func TestAStreamWithoutDataHasNoSpan(t *testing.T) {
	m, s, id := openMemory(t)
	lines, ended := within(t, s, id, Span{m.now, m.now.Add(time.Hour)})
	require.Empty(t, lines)
	require.False(t, ended)
	require.NoError(t, s.Drop(t.Context(), id, Range{0, 5}))
	require.NoError(t, s.End(t.Context(), id, 5))
	lines, ended = within(t, s, id, Span{m.now, m.now.Add(time.Hour)})
	require.Equal(t, []string{"gap-of-5"}, lines)
	require.True(t, ended)
}

func TestALineThatBeganInASpanIsWhole(t *testing.T) {
	m, s, id := openMemory(t)
	begin := m.now
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("one\ntw"), times.Mark{At: 0, Time: begin.UnixMilli()}, times.Mark{At: 4, Time: begin.Add(time.Second).UnixMilli()}))
	m.now = begin.Add(time.Hour)
	require.NoError(t, s.Write(t.Context(), id, 6, []byte("o\nthree\n"), times.Mark{At: 6, Time: m.now.UnixMilli()}))
	lines, ended := within(t, s, id, Span{Until: begin.Add(time.Minute)})
	require.Equal(t, []string{"one", "two"}, lines)
	require.True(t, ended)

	m.now = begin.Add(2 * time.Hour)
	for i := range int64(6) { // a line that doesn't end
		require.NoError(t, s.Write(t.Context(), id, 14+i*MaxWrite, bytes.Repeat([]byte("x"), MaxWrite), times.Mark{Time: m.now.UnixMilli()}))
		m.now = m.now.Add(time.Hour)
	}
	r := s.Reader(id, 0)
	require.NoError(t, r.Seek(t.Context(), Span{begin.Add(time.Hour), begin.Add(3 * time.Hour)}))
	read := int64(0)
	for {
		part, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		read += part.Len()
	}
	require.EqualValues(t, len("tw")+len("o\nthree\n")+MaxWrite+maxLineRest, read)
}

// A clock that is set back makes times of printing that don't ascend. The storage's clock
// tells what was printed when.
func TestNoLineOfASpanIsLostWhenAClockIsSet(t *testing.T) {
	for name, clock := range map[string]func(i int) time.Duration{
		"back, and wrong from then on": func(i int) time.Duration { return -time.Duration(min(max(i-40, 0), 1)) * time.Hour },
		"back, as it was wrong":        func(i int) time.Duration { return time.Duration(min(max(40-i, 0), 1)) * time.Hour },
		"forward for a while":          func(i int) time.Duration { return time.Duration(i/10%2) * time.Hour },
		"back for a while":             func(i int) time.Duration { return -time.Duration(i/10%2) * time.Hour },
		"not":                          func(int) time.Duration { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			for _, joined := range []bool{false, true} {
				m, s, id := openMemory(t)
				begin, at := m.now, int64(0)
				minute := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Minute) }
				var all []said
				for i := range 80 {
					all = append(all, said{fmt.Sprint(i), minute(i).Add(clock(i)), minute(i).Add(time.Second)})
				}
				if joined {
					for i := 0; i < len(all); i += 4 {
						at = joinedOf(t, m, id, at, all[i+3].kept.Add(2*settleTime), all[i:i+4]...)
					}
				} else {
					write(t, m, s, id, 0, all...)
				}
				for since := range 75 {
					span := Span{minute(since), minute(since + 5)}
					lines, _ := within(t, s, id, span)
					for i := since; i < since+5; i++ {
						require.Contains(t, lines, all[i].text, "since %d, joined: %t", since, joined)
					}
				}
			}
		})
	}
}

func TestASpanIsFoundAgainWhileAKeeperJoins(t *testing.T) {
	m, s, id := openMemory(t)
	begin := m.now
	var all []said
	for i := range 40 {
		now := begin.Add(time.Duration(i) * time.Minute)
		all = append(all, said{fmt.Sprint(i), now, now})
	}
	end := write(t, m, s, id, 0, all...)
	require.NoError(t, s.End(t.Context(), id, end))
	g := &gone{Bucket: m, before: func() { tidy(t, m, s, id) }}
	other, err := Open(t.Context(), g)
	require.NoError(t, err)
	r := other.Reader(id, 0)
	require.NoError(t, r.Seek(t.Context(), Span{begin.Add(20 * time.Minute), begin.Add(22 * time.Minute)}))
	require.Nil(t, g.before)
	part, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "19\n", string(part.Data))
}

// A gone bucket lets something happen between a listing and the first read of data.
type gone struct {
	storage.Bucket
	before func()
}

// Read implements storage.Bucket.
func (g *gone) Read(ctx context.Context, key string) ([]byte, error) {
	if happens := g.before; happens != nil && strings.Contains(key, "/data/") {
		g.before = nil
		happens()
	}
	return g.Bucket.Read(ctx, key)
}

func TestAFollowerBeginsAtATime(t *testing.T) {
	m, s, id := openMemory(t)
	begin := m.now
	at := write(t, m, s, id, 0, said{"a", begin, begin}, said{"b", begin.Add(time.Hour), begin.Add(time.Hour)}, said{"c", begin.Add(2 * time.Hour), begin.Add(2 * time.Hour)})
	r := s.Follower(id, 0)
	require.NoError(t, r.Seek(t.Context(), Span{Since: begin.Add(90 * time.Minute)}))
	text, complete := drain(t, r)
	require.Equal(t, "b\nc\n", text)
	require.False(t, complete)
	write(t, m, s, id, at, said{"d", begin, m.now})
	time.Sleep(layoutSharedFor)
	text, _ = drain(t, r)
	require.Equal(t, "d\n", text)
	r = s.Reader(id, 4)
	require.NoError(t, r.Seek(t.Context(), Span{Since: begin}))
	text, _ = drain(t, r)
	require.Equal(t, "c\nd\n", text, "a reader isn't moved back")
}
