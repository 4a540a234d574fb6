// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"

	"github.com/entrypointer/entrypointer/internal/target"
)

// base is the time at which containers start in these tests.
const base = 1_795_000_000_000

// start returns a time some milliseconds after base.
func start(later int64) string {
	return time.UnixMilli(base + later).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// A said is a text, and the time at which it was printed.
type said struct {
	later int64
	text  string
}

// prints stores some texts of a container, all sent at once.
func (c *cluster) prints(pod, container, start, name string, all ...said) (id string) {
	c.t.Helper()
	var text strings.Builder
	var marks []times.Mark
	for _, s := range all {
		marks = append(marks, times.Mark{At: int64(text.Len()), Time: base + s.later})
		text.WriteString(s.text)
	}
	id = c.stream(pod, container, start, name)
	require.NoError(c.t, c.store.Write(c.t.Context(), id, 0, []byte(text.String()), marks...))
	return id
}

func TestLinesOfAllStreamsComeInTheOrderInWhichTheyWerePrinted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.prints("p", "a", start(0), "stdout", said{1, "a1\n"}, said{5, "a5\na5 too\n"}, said{7, "a7, "}, said{20, "its rest\n"})
	c.prints("p", "a", start(0), "stderr", said{2, "a2!\n"}, said{5, "a5!\n"}, said{30, "no end"})
	c.prints("p", "b", start(1), "stdout", said{5, "b5\n"}, said{6, "b6\n"}, said{19, "b19\n"})
	c.prints("p", "c", start(25), "stdout", said{26, "c26\n"}, said{40, "c40\n"})
	text, err := c.printed("p", func(o *Options) { o.Printer.Prefix = new(false) })
	require.NoError(t, err)
	require.Equal(t, "a1\na2!\na5\na5 too\na5!\nb5\nb6\na7, its rest\nb19\nc26\nno end\nc40\n", text)

	text, err = c.printed("p", func(o *Options) { o.Container, o.Printer.Timestamps = "a", true })
	require.NoError(t, err)
	require.Equal(t, `2026-11-18T11:06:40.001Z a1
2026-11-18T11:06:40.002Z a2!
2026-11-18T11:06:40.005Z a5
2026-11-18T11:06:40.005Z a5 too
2026-11-18T11:06:40.005Z a5!
2026-11-18T11:06:40.007Z a7, its rest
2026-11-18T11:06:40.030Z no end`, text)
	text, err = c.printed("p", func(o *Options) { o.Tail = 1; o.Printer.Timestamps = true; o.Stream = "stdout" })
	require.NoError(t, err)
	require.Equal(t, `[pod/p/a] 2026-11-18T11:06:40.007Z a7, its rest
[pod/p/b] 2026-11-18T11:06:40.019Z b19
[pod/p/c] 2026-11-18T11:06:40.040Z c40
`, text)
}

func TestOnlyLinesSinceATimeArePrinted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	out := c.prints("p", "a", start(0), "stdout", said{1, "a1\n"}, said{5, "a5\n"}, said{7, "a7, "}, said{20, "its rest\n"})
	err := c.prints("p", "a", start(0), "stderr", said{2, "a2!\n"}, said{9, "a9!\n"})
	c.prints("p", "b", start(0), "stdout", said{50, "b50\n"})
	c.ends("Succeeded")
	c.end(out, 19)
	c.end(err, 8)
	for _, test := range []struct {
		since int64
		tail  int
		want  []string
	}{
		{0, -1, []string{"a1", "a2!", "a5", "a7, its rest", "a9!"}},
		{5, -1, []string{"a5", "a7, its rest", "a9!"}},
		{6, -1, []string{"a7, its rest", "a9!"}},
		{8, -1, []string{"a9!"}},
		{10, -1, nil},
		{5, 1, []string{"a7, its rest", "a9!"}},
		{8, 1, []string{"a9!"}},
		{0, 0, nil},
	} {
		for _, follow := range []bool{false, true}[:1+test.since%2] { // which takes its time
			text, err := c.printed("p", func(o *Options) {
				o.Container, o.Follow, o.Tail = "a", follow, test.tail
				o.Printer.Since = time.UnixMilli(base + test.since)
			})
			require.NoError(t, err)
			got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if text == "" {
				got = nil
			}
			if follow { // in whatever order they come
				require.ElementsMatch(t, test.want, got, "%+v", test)
			} else {
				require.Equal(t, test.want, got, "%+v", test)
			}
		}
	}
}

func TestOnlyLinesUntilATimeArePrinted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	out := c.prints("p", "a", start(0), "stdout", said{1, "a1\n"}, said{5, "a5\n"}, said{7, "a7, "}, said{20, "its rest\n"}, said{30, "a30\n"})
	c.prints("p", "a", start(0), "stderr", said{2, "a2!\n"}, said{9, "a9!\n"})
	c.ends("Succeeded")
	c.end(out, 23)
	for _, test := range []struct {
		since, until int64
		tail         int
		want         string
	}{
		{0, 1, -1, ""},
		{0, 5, -1, "a1\na2!\n"},
		{2, 8, -1, "a2!\na5\na7, its rest\n"},
		{0, 8, 1, "a2!\na7, its rest\n"},
		{0, 9, 2, "a2!\na5\na7, its rest\n"},
		{3, 8, 2, "a5\na7, its rest\n"},
		{0, 8, 0, ""},
	} {
		text, err := c.printed("p", func(o *Options) {
			o.Tail, o.Printer.Span = test.tail, Span{time.UnixMilli(base + test.since), time.UnixMilli(base + test.until)}
		})
		require.NoError(t, err, "what is after the time isn't waited for")
		require.Equal(t, test.want, text, "%+v", test)
	}
}

// A line has the greatest time so far, so that lines stay in their order. Whether it is from
// before Until is said by the clock.
func TestNoLineIsLostUntilATimeAfterAClockWasSetBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.prints("p", "a", start(0), "stdout", said{1, "a1\n"}, said{90, "a90\n"})
	require.NoError(t, c.store.Write(t.Context(), id, 7, []byte("a2\na3\na50\n"), times.Mark{At: 7, Time: base + 2}, times.Mark{At: 13, Time: base + 50}))
	c.end(id, 17)
	c.ends("Succeeded")
	text, err := c.printed("p", func(o *Options) { o.Printer.Until = time.UnixMilli(base + 10) })
	require.NoError(t, err)
	require.Equal(t, "a1\na2\na3\n", text)
}

// To find a time in a long log, few bytes are read.
func TestATimeIsFoundInALongLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.stream("p", "main", start(0), "stdout")
	var want strings.Builder
	for i := range int64(64) {
		text := strings.Repeat(fmt.Sprintf("line %02d\n", i), streams.MaxWrite/8)
		require.NoError(t, c.store.Write(t.Context(), id, i*streams.MaxWrite, []byte(text), times.Mark{At: i * streams.MaxWrite, Time: base + 10*i}))
		if i >= 60 {
			want.WriteString(text)
		}
	}
	text, err := c.printed("p", func(o *Options) { o.Printer.Since = time.UnixMilli(base + 600) })
	require.NoError(t, err)
	require.Equal(t, want.String(), text)
}

func TestManyLongStreamsAreReadPieceByPiece(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const each = 40
	for stream, name := range []string{"stdout", "stderr"} {
		id := c.stream("p", "main", start(0), name)
		for i := range int64(each) {
			// The lines alternate in time, so that both streams are read to their ends.
			text := strings.Repeat(strings.Repeat(name[3:4], 1023)+"\n", streams.MaxWrite/1024)
			require.NoError(t, c.store.Write(t.Context(), id, i*streams.MaxWrite, []byte(text), times.Mark{At: i * streams.MaxWrite, Time: base + 2*i + int64(stream)}))
		}
	}
	named, err := target.Parse("p", target.All())
	require.NoError(t, err)
	out := &counting{}
	printer := NewPrinter(out)
	all, err := c.client.streams(t.Context(), Options{Target: named, Printer: printer})
	require.NoError(t, err)
	m := newMerger(c.client, Options{Target: named, Tail: -1, Printer: printer}, all)
	most := 0
	out.each = func() {
		held := 0
		for _, s := range m.sources {
			for _, p := range s.parts {
				held += len(p.Data)
			}
		}
		most = max(most, held)
	}
	m.memory = 1 << 20
	require.NoError(t, m.run(t.Context()))
	require.EqualValues(t, 2*each*streams.MaxWrite, out.bytes)
	require.Greater(t, out.turns, each)
	require.LessOrEqual(t, most, 1<<20+2*streams.MaxWrite)
}

// counting counts the written bytes, and the changes from one stream to another.
type counting struct {
	bytes int64
	turns int
	last  byte
	each  func()
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	c.each()
	c.bytes += int64(len(p))
	for i := 0; i < len(p); i += 1024 {
		if p[i] != c.last {
			c.turns, c.last = c.turns+1, p[i]
		}
	}
	return len(p), nil
}

func TestAServiceWithoutTimesIsReadContainerByContainer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "/logs"):
			var list []string
			for i, stream := range []struct{ container, start, name string }{{"b", start(1), "stdout"}, {"b", start(1), "stderr"}, {"a", start(5), "stdout"}, {"c", "", "stdout"}} {
				list = append(list, fmt.Sprintf(`{"id":"%d","name":%q,"pod":"p","podUID":"u","container":%q,"start":%q}`, i, stream.name, stream.container, stream.start))
			}
			_, _ = fmt.Fprintf(w, `{"logs":[%s]}`, strings.Join(list, ","))
		default:
			asked.Add(1)
			_, _ = fmt.Fprintf(w, "event: dropped\ndata: {\"from\":0,\"to\":3}\n\nevent: data\ndata: {\"from\":3,\"to\":6,\"data\":\"%s\"}\n\nevent: end\ndata: {}\n\n", "aGkK")
		}
	}))
	defer old.Close()
	c := newCluster(t)
	c.client = clientOf(t, old.URL)
	text, err := c.printed("p", nil)
	require.NoError(t, err)
	var want strings.Builder
	for _, container := range []string{"c", "b", "b", "a"} {
		fmt.Fprintf(&want, "[pod/p/%[1]s] [entrypointer: 3 bytes were dropped]\n[pod/p/%[1]s] hi\n", container)
	}
	require.Equal(t, want.String(), text)
	require.EqualValues(t, 4, asked.Load())
}
