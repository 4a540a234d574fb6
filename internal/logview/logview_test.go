// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aLog is a log that a test serves.
type aLog struct {
	*testing.T
	handler http.Handler
}

func serve(t *testing.T, o Options, source Source) aLog {
	t.Helper()
	o.Dir = t.TempDir()
	views := New(o)
	t.Cleanup(views.Close)
	l := aLog{t, views.Log("ns/pod/a", source)}
	return l
}

// ask returns the response to a request, as it comes.
func (l aLog) ask(target string) *httptest.ResponseRecorder {
	l.Helper()
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequestWithContext(l.Context(), http.MethodGet, target, nil))
	return w
}

func (l aLog) get(target string, body any) {
	l.Helper()
	w := l.ask(target)
	require.Equal(l, http.StatusOK, w.Code, w.Body)
	require.NoError(l, json.Unmarshal(w.Body.Bytes(), body))
}

// read waits until the log is read to its end.
func (l aLog) read() (body infoBody) {
	l.Helper()
	for version := int64(-1); ; version = body.Version {
		target := "/info"
		if version >= 0 {
			target = fmt.Sprint("/info?after=", version)
		}
		l.get(target, &body)
		if body.Done {
			return body
		}
	}
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	others = regexp.MustCompile(`<a class="n".*?</a>|<time>.*?</time>|<span class="s".*?</span>`)
)

// rows returns the texts of rows.
func (l aLog) rows(target string) (texts []string) {
	l.Helper()
	var body rowsBody
	l.get(target, &body)
	return textsOf(body.HTML)
}

func textsOf(html string) (texts []string) {
	for text := range strings.Lines(others.ReplaceAllString(html, "")) {
		texts = append(texts, strings.TrimSuffix(tags.ReplaceAllString(text, ""), "\n"))
	}
	return texts
}

var (
	stdout = Stream{ID: "a1", Name: "stdout", Pod: "build", Container: "compile", Start: "2026-11-28T12:00:00Z"}
	stderr = Stream{ID: "a2", Name: "stderr", Pod: "build", Container: "compile", Start: "2026-11-28T12:00:00Z"}
	other  = Stream{ID: "b1", Name: "stdout", Pod: "build", Container: "proxy", Start: "2026-11-28T12:00:00Z"}
)

// printed is a source of streams that print lines in turn.
type printed struct {
	*Recorder
	offsets map[string]int64
}

func (p *printed) print(s Stream, text string) error {
	err := p.Add(Line{Stream: s, Text: []byte(text), Offset: p.offsets[s.ID], Time: 1_795_000_000_000 + p.offsets[s.ID], Ended: true})
	p.offsets[s.ID] += int64(len(text)) + 1
	return err
}

func prints(what func(p *printed) error) Source {
	return func(_ context.Context, to *Recorder) error { return what(&printed{to, map[string]int64{}}) }
}

func (p *printed) all(s Stream, lines ...string) error {
	for _, line := range lines {
		if err := p.print(s, line); err != nil {
			return err
		}
	}
	return nil
}

func TestAMillionLinesAreShownFromAnywhere(t *testing.T) {
	t.Parallel()
	lines := 1_000_000
	if testing.Short() {
		lines = 100_000
	}
	l := serve(t, Options{}, prints(func(p *printed) error {
		for n := range lines {
			if err := p.print(stdout, fmt.Sprintf("line %d", n)); err != nil {
				return err
			}
		}
		return nil
	}))
	info := l.read()
	require.Equal(t, lines, info.Records)
	require.Equal(t, lines, info.Rows)
	require.Equal(t, int64(lines), info.Streams[0].Lines)
	for _, from := range []int{0, 1, 255, 256, 257, lines / 7, lines - 3} {
		texts := l.rows(fmt.Sprintf("/rows?row=%d&count=3", from))
		for at := range 3 {
			require.Equal(t, fmt.Sprintf("line %d", from+at), texts[at])
		}
	}
	require.Equal(t, []string{"line 498", "line 499"}, l.rows("/rows?before=500&count=2"))
	require.Empty(t, l.rows(fmt.Sprintf("/rows?row=%d", lines+5)), "beyond the end")
	var found struct {
		Matches []match
		Next    int
	}
	for found.Next < lines && len(found.Matches) == 0 { // a request ends after a second
		l.get(fmt.Sprintf("/search?from=%d&q=%s", found.Next, url.QueryEscape(fmt.Sprintf("LINE %d", lines-1))), &found)
	}
	require.Equal(t, []match{{Line: lines - 1}}, found.Matches)
}

func TestFoldsHideLinesUntilTheyAreOpened(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(
			p.all(stdout, "before", "::group::Install <b>", "one"),
			p.all(stderr, "a warning in the group"),
			p.all(other, "of another container"),
			p.all(stdout, "two", "::endgroup::", "after", "##[group]Azure", "three", "::group::next", "four", "##[endgroup]", "::endgroup::"),
		)
	}))
	info := l.read()
	require.Equal(t, 3, info.Folds)
	folded := []string{"before", "Install &lt;b&gt; 3 lines", "of another container", "after", "Azure 1 line", "next 1 line", "::endgroup::"}
	for at := range folded[:2] {
		require.Equal(t, folded[at], l.rows("/rows?row=0")[at])
	}
	require.Equal(t, folded, l.rows("/rows?row=0"))
	require.Equal(t, len(folded), info.Rows)
	require.Equal(t, []string{"before", "Install &lt;b&gt; 3 lines", "one", "stderra warning in the group", "of another container", "two", "after", "Azure 1 line", "next 1 line", "::endgroup::"}, l.rows("/rows?row=0&open=2"))
	require.Len(t, l.rows("/rows?row=0&unfold=1"), 12)
	require.Len(t, l.rows("/rows?row=0&unfold=1&close=3"), 11)

	var found struct{ Matches []match }
	l.get("/search?q=two", &found)
	require.Equal(t, []match{{Line: 5, Folds: []int{2}}}, found.Matches, "in a fold")
	var body rowsBody
	l.get("/rows?line=5", &body)
	require.Equal(t, 2, body.At, "the next row before the fold's line that is shown")
	l.get("/rows?line=5&open=2", &body)
	require.Equal(t, 5, body.At)
}

func TestOnlyAMarkAloneEndsAGroup(t *testing.T) {
	t.Parallel()
	title := strings.Repeat("long ", 1000)
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(
			p.all(stdout, "::group::one", "in it", "::endgroup::"+strings.Repeat(" ", 20)+"hidden", "::endgroup::"+strings.Repeat(" ", 100)+"\r", "out of it"),
			p.all(stdout, "::group::"+title, "in it", "::endgroup::"),
		)
	}))
	l.read()
	rows := l.rows("/rows?row=0&unfold=1")
	require.Equal(t, []string{"one 2 lines", "in it", "::endgroup::" + strings.Repeat(" ", 20) + "hidden", "out of it"}, rows[:4])
	shown := strings.TrimSuffix(rows[4], " 1 line") + rows[5]
	require.Equal(t, title, shown, "all of the title")
	var found struct{ Matches []match }
	l.get("/search?q=hidden", &found)
	require.Len(t, found.Matches, 1)
}

func TestBeyondTheBoundOfFoldsAGroupStillEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		for range mostFolds - neverShown - 1 {
			if err := p.print(stdout, "::group::x"); err != nil {
				return err
			}
		}
		return p.all(stdout, "in the last one", "::group::beyond", "in none")
	}))
	info := l.read()
	require.Equal(t, []string{"::group::beyond", "in none"}, l.rows(fmt.Sprintf("/rows?before=%d&count=2", info.Rows)))
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestALineOfTenMegabytesIsShownInPieces(t *testing.T) {
	t.Parallel()
	const size = 10_000_000
	l := serve(t, Options{}, prints(func(p *printed) error {
		if err := p.print(stdout, "before"); err != nil {
			return err
		}
		for at := 0; at < size; at += 64 << 10 { // as it comes
			text := strings.Repeat("0123456789abcdeß", 4<<10)[:min(64<<10, size-at)]
			if err := p.Add(Line{Stream: stdout, Text: []byte(text), Offset: p.offsets["a1"], Ended: at+len(text) == size}); err != nil {
				return err
			}
			p.offsets["a1"] += int64(len(text))
		}
		return p.print(stdout, "behind")
	}))
	info := l.read()
	require.Equal(t, 3, info.Rows)
	require.Equal(t, int64(3), info.Streams[0].Lines)
	w := l.ask("/rows?row=0")
	require.Less(t, w.Body.Len(), 8<<10)
	require.Contains(t, w.Body.String(), "the line goes on for 9995 kB")

	var open infoBody
	l.get("/info?open=2", &open)
	require.Greater(t, open.Rows, size/pieceSize)
	var all strings.Builder
	for row := 1; row < open.Rows-1; {
		var body rowsBody
		l.get(fmt.Sprintf("/rows?open=2&count=400&row=%d", row), &body)
		require.Less(t, len(body.HTML), mostHTML+2*pieceSize)
		for _, text := range textsOf(body.HTML) {
			text, _, _ = strings.Cut(text, " the line goes on")
			all.WriteString(text)
		}
		row = min(body.To, open.Rows-1)
	}
	shown := strings.TrimSuffix(all.String(), "behind")
	require.Len(t, shown, size)
	require.Equal(t, strings.Repeat("0123456789abcdeß", 100), shown[:1700], "no character is cut")
}

func TestALineThatComesInPartsIsOneLine(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(
			p.Add(Line{Stream: stdout, Text: []byte("Compi")}),
			p.Add(Line{Stream: stdout, Text: []byte("ling \x1b[32"), Offset: 5}),
			p.Add(Line{Stream: stdout, Text: []byte("mdone"), Offset: 14}),
			p.Add(Line{Stream: other, Text: []byte("meanwhile"), Ended: true}),
			p.Add(Line{Stream: stdout, Text: []byte(" in 3 s"), Offset: 19, Ended: true}),
			p.Add(Line{Stream: stdout, Text: []byte("next"), Offset: 27, Ended: true}),
		)
	}))
	info := l.read()
	require.Equal(t, int64(2), info.Streams[0].Lines)
	require.Equal(t, []string{"Compiling done", "meanwhile", " in 3 s", "next"}, l.rows("/rows?row=0"))
	require.Contains(t, l.ask("/rows?row=0").Body.String(), `<span class=\"f2\">next`, "the colour goes on")
}

func TestALinkNamesAByteOfItsStream(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		for n := range 5000 {
			if err := errorsOf(p.print(stdout, fmt.Sprintf("line %d", n)), p.print(stderr, "warning")); err != nil {
				return err
			}
		}
		return errorsOf(
			p.Add(Line{Stream: stdout, Text: []byte("[entrypointer: 100 bytes were dropped]"), Offset: p.offsets["a1"], Ended: true, Gap: true}),
			p.Add(Line{Stream: stdout, Text: []byte("::group::x"), Offset: p.offsets["a1"] + 100, Ended: true}),
			p.Add(Line{Stream: stdout, Text: []byte("last"), Offset: p.offsets["a1"] + 111, Ended: true}),
		)
	}))
	l.read()
	for n, offset := 0, 0; n < 5000; n++ {
		if n%617 == 0 || n < 3 {
			for _, within := range []int{0, 3} {
				var found struct {
					Found bool
					Line  int
				}
				l.get(fmt.Sprintf("/find?stream=a1&at=%d", offset+within), &found)
				require.True(t, found.Found)
				require.Equal(t, 2*n, found.Line)
			}
		}
		offset += len(fmt.Sprintf("line %d", n)) + 1
	}
	require.Contains(t, l.ask("/rows?row=2&count=1").Body.String(), `href=\"#log=a1:7\">2</a>`)
	var found struct {
		Found bool
		Folds []int
	}
	last := int64(48890 + 111)
	l.get(fmt.Sprint("/find?stream=a1&at=", last), &found)
	require.True(t, found.Found, "the last one")
	require.Equal(t, []int{2}, found.Folds)
	l.get("/find?stream=a1&at=99999999", &found)
	require.False(t, found.Found, "beyond the end")
	l.get(fmt.Sprint("/find?stream=a1&at=", last-60), &found)
	require.False(t, found.Found, "dropped")
	l.get("/find?stream=zz&at=0", &found)
	require.False(t, found.Found)
}

func TestStreamsAreHiddenMergedAndApart(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(p.all(stdout, "c1"), p.all(other, "p1"), p.all(stderr, "e1"), p.all(other, "p2"), p.all(stdout, "c2"))
	}))
	info := l.read()
	require.Equal(t, "compile", info.Streams[0].Label)
	require.Equal(t, []string{"c1", "p1", "stderre1", "p2", "c2"}, l.rows("/rows?row=0"))
	require.Equal(t, []string{"c1", "stderre1", "c2"}, l.rows("/rows?row=0&hide=1"))
	require.Equal(t, []string{"compile", "c1", "stderre1", "c2", "proxy", "p1", "p2"}, l.rows("/rows?row=0&apart=1"))
	require.Equal(t, []string{"c2", "proxy", "p1"}, l.rows("/rows?row=3&apart=1&count=3"))
	var body rowsBody
	l.get("/rows?line=3&apart=1", &body)
	require.Equal(t, 6, body.At)
	require.Equal(t, 7, body.Total)
	var found struct{ Matches []match }
	l.get("/search?q=1&hide=0", &found)
	require.Equal(t, []match{{Line: 1}, {Line: 2}}, found.Matches)
}

func TestALogThatGrowsIsReadMeanwhile(t *testing.T) {
	t.Parallel()
	more := make(chan string)
	l := serve(t, Options{}, func(ctx context.Context, to *Recorder) error {
		p := &printed{to, map[string]int64{}}
		to.Live()
		for text := range more {
			if err := p.print(stdout, text); err != nil {
				return err
			}
		}
		return nil
	})
	var body infoBody
	l.get("/info", &body)
	for n := range 1000 {
		more <- fmt.Sprintf("line %d", n)
		for body.Records <= n {
			l.get(fmt.Sprint("/info?after=", body.Version), &body)
		}
		require.Equal(t, []string{fmt.Sprintf("line %d", n)}, l.rows("/rows?before=99999&count=1"))
	}
	close(more)
	require.True(t, l.read().Done)
}

func TestBoundsAreStatedAndWhatIsIndexedIsShown(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{MaxLog: 1 << 20}, prints(func(p *printed) error {
		for {
			if err := p.print(stdout, strings.Repeat("x", 99)); err != nil {
				return fmt.Errorf("reading: %w", err)
			}
		}
	}))
	info := l.read()
	require.Contains(t, info.Full, "The page shows the first 861 kB")
	require.Empty(t, info.Error)
	require.Len(t, l.rows(fmt.Sprintf("/rows?before=%d&count=10", info.Rows)), 10)
}

func TestALogThatNobodyReadsIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	views := New(Options{Dir: dir, Idle: 50 * time.Millisecond})
	defer views.Close()
	opened := make(chan struct{}, 100)
	ended := make(chan struct{}, 100)
	l := aLog{t, views.Log("key", func(ctx context.Context, to *Recorder) error {
		opened <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	})}
	var first, second infoBody
	l.get("/info", &first)
	<-opened
	<-ended // it is closed
	l.get("/info", &second)
	<-opened
	require.NotEqual(t, first.Epoch, second.Epoch)
}

// TestWaitingForAChangeOpensNoLog waits for a log that isn't open, then for one that is, and for
// one that was closed meanwhile.
func TestWaitingForAChangeOpensNoLog(t *testing.T) {
	t.Parallel()
	views := New(Options{Dir: t.TempDir(), Idle: 50 * time.Millisecond})
	defer views.Close()
	opened := 0
	l := aLog{t, views.Log("key", func(context.Context, *Recorder) error {
		opened++
		return nil
	})}
	info := func(target string) (body infoBody) {
		l.get(target, &body)
		return body
	}
	require.True(t, info("/info?after=0").Closed)
	first := l.read()
	require.False(t, first.Closed)
	require.Eventually(t, func() bool { return info(fmt.Sprint("/info?after=", first.Version-1)).Closed }, time.Minute, 200*time.Millisecond)
	require.Equal(t, 1, opened)
	require.NotEqual(t, first.Epoch, l.read().Epoch)
}

func TestADirectoryWithoutRoomIsFoundOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, CheckDirectory(dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorIs(t, CheckDirectory(filepath.Join(dir, "absent")), os.ErrNotExist)
}

// TestAnOwnerHasLogsOfItsOwn has two owners read the same, and one of them too much.
func TestAnOwnerHasLogsOfItsOwn(t *testing.T) {
	t.Parallel()
	views := New(Options{Dir: t.TempDir(), MaxLogsOfOwner: 2})
	defer views.Close()
	log := func(owner, key string) (epoch int64) {
		var body infoBody
		aLog{t, views.LogOf(owner, key, func(context.Context, *Recorder) error { return nil })}.get("/info", &body)
		return body.Epoch
	}
	mine, others := log("jane", "a"), log("bob", "a")
	require.NotEqual(t, mine, others)
	require.NotEqual(t, mine, log("", "jane a"))
	require.Equal(t, mine, log("jane", "a"))
	for _, key := range []string{"b", "c", "d"} {
		log("jane", key)
	}
	require.NotEqual(t, mine, log("jane", "a"), "it was closed for the others of its owner")
	require.Equal(t, others, log("bob", "a"))
}

// TestAnOwnerLeavesDiskSpaceForOthers has one owner read more than its share, in several logs.
func TestAnOwnerLeavesDiskSpaceForOthers(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	views := New(Options{Dir: t.TempDir(), MaxLog: most, MaxOfOwner: 3 * most / 2, MaxTotal: 4 * most})
	defer views.Close()
	read := func(owner, key string) (infoBody, aLog) {
		l := aLog{t, views.LogOf(owner, key, prints(func(p *printed) error {
			for {
				if err := p.print(stdout, strings.Repeat("x", 99)); err != nil {
					return err
				}
			}
		}))}
		return l.read(), l
	}
	whole, first := read("jane", "a")
	release, err := views.acquire(name{"jane", "a"}, nil)
	require.NoError(t, err, "it is read on, so it isn't closed for the next")
	rest, second := read("jane", "b")
	require.Less(t, rest.Bytes, whole.Bytes*2/3)
	require.Contains(t, rest.Full, "because more doesn't fit on its disk")
	others, _ := read("bob", "a")
	require.Equal(t, whole.Bytes, others.Bytes)
	require.Equal(t, whole.Epoch, first.read().Epoch)
	require.Equal(t, rest.Epoch, second.read().Epoch)
	views.release(release)

	_, _ = read("jane", "c")
	require.NotEqual(t, rest.Epoch, second.read().Epoch, "the one that wasn't read for longest was closed for a further one")
}

func TestTheShareOfAnOwnerWithoutLogsIsForgotten(t *testing.T) {
	t.Parallel()
	views := New(Options{Dir: t.TempDir(), MaxOfOwner: 1 << 20})
	log := aLog{t, views.LogOf("jane", "a", prints(func(p *printed) error {
		return p.all(stdout, strings.Repeat("x", 2*blockSize), "y")
	}))}
	log.read()
	require.Positive(t, views.shares["jane"].taken.Load())
	views.Close()
	require.Empty(t, views.shares)
	require.Zero(t, views.room.taken.Load())
}

func TestWrongRequestsAreRefused(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, prints(func(*printed) error { return nil }))
	for _, target := range []string{"/rows?row=x", "/rows?row=-1", "/search?q=%28&regexp=1", "/rows?open=1,a", "/find?at=1e3", "/search?q=" + strings.Repeat("x", 2000)} {
		require.Equal(t, http.StatusBadRequest, l.ask(target).Code, target)
	}
	require.Equal(t, http.StatusNotFound, l.ask("/elsewhere").Code)
}

func TestASearchFindsWhatIsAcrossThePiecesOfALine(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("-", pieceSize-3)
	l := serve(t, Options{}, prints(func(p *printed) error {
		return errorsOf(
			p.Add(Line{Stream: stdout, Text: []byte(half + "nee")}),
			p.Add(Line{Stream: other, Text: []byte(half + "hay")}),
			p.Add(Line{Stream: stdout, Text: []byte("dle"), Offset: pieceSize}), // 2
			p.Add(Line{Stream: other, Text: []byte("stack"), Offset: pieceSize}),
			p.Add(Line{Stream: stderr, Text: []byte("dle stack"), Ended: true}),
			p.all(other, " and more"),
			p.Add(Line{Stream: stdout, Text: []byte("s"), Offset: pieceSize + 3, Ended: true}),
		)
	}))
	l.read()
	for _, test := range []struct {
		query string
		lines []match
	}{
		{"needle", []match{{Line: 2}}},
		{"haystack", []match{{Line: 3}}},
		{"needles", []match{{Line: 6}}},
		{"stack and", []match{{Line: 5}}},
		{"haydle", []match{}},
		{"edle&regexp=1", []match{{Line: 2}, {Line: 6}}}, // the end of a piece is looked at again
		{"needle&from=2", []match{{Line: 2}}},
		{"needles&from=5", []match{{Line: 6}}},
	} {
		var found struct {
			Matches []match
			Next    int
		}
		l.get("/search?q="+strings.ReplaceAll(test.query, " ", "+"), &found)
		require.Equal(t, test.lines, found.Matches, test.query)
		require.Equal(t, 7, found.Next)
	}
}

func TestASpoolThatCantBeReadIsAnError(t *testing.T) {
	t.Parallel()
	x, err := newIndex(t.TempDir(), &room{perLog: 1 << 30, total: 1 << 30}, &share{})
	require.NoError(t, err)
	x.fill(t.Context(), prints(func(p *printed) error {
		for range 2 * blockRecords {
			if err := p.print(stdout, "line"); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, x.spool.Close())
	v := &view{index: x}
	for _, target := range []string{"/rows?before=100", "/rows?row=0", "/rows?line=3"} {
		_, err = v.window(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil), 10, nil)
		require.ErrorContains(t, err, "reading a log from a temporary file", target)
	}
	require.True(t, x.mu.TryLock(), "the lock is free again")
}

func TestALinkIsFoundOrKnownToBeGoneWhileALogIsRead(t *testing.T) {
	t.Parallel()
	read, end := make(chan struct{}), make(chan struct{})
	l := serve(t, Options{}, func(_ context.Context, to *Recorder) error {
		err := errorsOf(
			to.Add(Line{Stream: stdout, Text: []byte("12345"), Offset: 100, Ended: true}),
			to.Add(Line{Stream: stdout, Text: []byte("12345"), Offset: 200, Ended: true}),
		)
		close(read)
		<-end
		return err
	})
	l.ask("/info")
	<-read
	type answer struct{ Found, Passed bool }
	for at, is := range map[int]answer{50: {false, true}, 100: {true, true}, 105: {true, true}, 106: {false, true}, 200: {true, false}, 206: {false, false}} {
		var found answer
		l.get(fmt.Sprint("/find?stream=a1&at=", at), &found)
		require.Equal(t, is, found, at)
	}
	close(end)
	l.read()
	var found answer
	l.get("/find?stream=a1&at=206", &found)
	require.Equal(t, answer{false, true}, found)
}

func TestMemoryOfAnIndexCountsForItsBounds(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	x, err := newIndex(t.TempDir(), &room{perLog: most, total: most}, &share{})
	require.NoError(t, err)
	streams := make([]Stream, 256)
	for at := range streams {
		streams[at] = stdout
		streams[at].ID = fmt.Sprint(at)
	}
	x.fill(t.Context(), prints(func(p *printed) error {
		for at := 0; ; at++ {
			if err := p.print(streams[at%len(streams)], ""); err != nil {
				return err
			}
		}
	}))
	require.True(t, x.full)
	memory := 0
	for _, b := range x.blocks {
		memory += blockMemory + countMemory*cap(b.counts)
	}
	require.LessOrEqual(t, memory, most/memoryWeight)
	require.NoError(t, x.close())
	require.Zero(t, x.room.taken.Load())
}

func TestRemarksAreSaidOnce(t *testing.T) {
	t.Parallel()
	l := serve(t, Options{}, func(_ context.Context, to *Recorder) error {
		w := &noteWriter{to: to}
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for n := range 2 * mostNotes {
					_, _ = fmt.Fprintf(w, "remark %d\n", n)
				}
			})
		}
		writers.Wait()
		return nil
	})
	notes := l.read().Notes
	require.Len(t, notes, mostNotes+1)
	require.Equal(t, "There are more remarks, which are left out.", notes[mostNotes])
	seen := map[string]bool{}
	for _, note := range notes {
		require.False(t, seen[note], note)
		seen[note] = true
	}
}
