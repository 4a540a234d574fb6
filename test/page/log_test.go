// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logview"
)

// policy is that of the page, and forbids as well to make elements of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; require-trusted-types-for 'script'"

// serveLog serves a page that has nothing but a log, and returns its address.
func serveLog(t *testing.T, source logview.Source) string {
	t.Helper()
	return serveLogs(t, func() string { return "key" }, source)
}

// serveLogs serves a log that is read anew whenever its key is another one.
func serveLogs(t *testing.T, key func() string, source logview.Source) string {
	t.Helper()
	views := logview.New(logview.Options{Dir: t.TempDir()})
	mux := http.NewServeMux()
	mux.HandleFunc("/log/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/log", views.Log(key(), source)).ServeHTTP(w, r)
	})
	mux.Handle("/assets/", http.StripPrefix("/assets", logview.Assets()))
	mux.Handle("/page.css", http.FileServer(http.Dir("../../internal/page/assets")))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>A log</title><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css"><link rel="stylesheet" href="assets/logview.css"><script type="module" src="assets/logview.mjs"></script><main><h1>A log</h1><section aria-labelledby="h"><h2 id="h">Log</h2>%s</section></main>`, logview.Section("/log/"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		views.Close()
	})
	return server.URL + "/"
}

var (
	compile  = logview.Stream{ID: "c1", Name: "stdout", Pod: "build", Container: "compile"}
	warnings = logview.Stream{ID: "c2", Name: "stderr", Pod: "build", Container: "compile"}
	proxy    = logview.Stream{ID: "p1", Name: "stdout", Pod: "build", Container: "proxy"}
)

// A printer prints lines into logs.
type printer struct {
	*logview.Recorder

	offsets map[string]int64
	failed  error
}

func newPrinter(to *logview.Recorder) *printer { return &printer{to, map[string]int64{}, nil} }

func (p *printer) print(s logview.Stream, lines ...string) {
	for _, line := range lines {
		if p.failed != nil {
			return
		}
		p.failed = p.Add(logview.Line{Stream: s, Text: []byte(line), Offset: p.offsets[s.ID], Time: 1_795_000_000_000 + p.offsets[s.ID], Ended: true})
		p.offsets[s.ID] += int64(len(line)) + 1
	}
}

// aMillion has a million lines, of which some wrap, have colors or are in groups, and one has
// 10 MB.
func aMillion(_ context.Context, to *logview.Recorder) error {
	p := newPrinter(to)
	for n := range 1_000_000 {
		switch {
		case n == 300_000:
			p.print(compile, "long "+strings.Repeat("0123456789 ", 10_000_000/11))
		case n%1000 == 500:
			p.print(compile, fmt.Sprintf("::group::Group %d", n))
		case n%1000 == 600:
			p.print(compile, "::endgroup::")
		case n%50 == 7:
			p.print(warnings, fmt.Sprintf("line %d: \x1b[1;33mwarning:\x1b[0m %s", n, strings.Repeat("this line wraps ", 40)))
		case n%10 == 3:
			p.print(proxy, fmt.Sprintf("line %d GET /healthz 200", n))
		default:
			p.print(compile, fmt.Sprintf("line %d: compiling \x1b[36mpackage%d\x1b[m", n, n%97))
		}
	}
	return p.failed
}

// seen is an expression for the texts of the rows that are seen.
const seen = `[...document.querySelectorAll(".log .r")].filter((r) => { const s = document.querySelector(".scroller").getBoundingClientRect(), b = r.getBoundingClientRect(); return b.bottom > s.top && b.top < s.bottom; }).map((r) => r.querySelector(".t").textContent)`

// whole is true once a log has been read to its end.
const whole = `document.querySelector(".log .state")?.textContent === "That is the whole log."`

// nodes is an expression for how many nodes the page has.
const nodes = `document.querySelectorAll("*").length`

// mostNodes bounds the elements of a page with a log.
const mostNodes = 20_000

// watchPauses has the page note the longest time in milliseconds in which it did nothing else than
// a task of its own: a timer is so much late.
const watchPauses = `{ window.longestPause = 0; let last = performance.now(); setInterval(() => { longestPause = Math.max(longestPause, performance.now() - last); last = performance.now(); }, 10) }`

// longestPause bounds that time, also on a machine that is busy with other tests.
const longestPause = 5000

func TestAMillionLinesAndOneOfTenMegabytes(t *testing.T) {
	at := serveLog(t, aMillion) // which the first browser has the server read
	inBrowsers(t, func(t *testing.T, b *browser) {
		began := time.Now()
		b.visit(t, at, `document.querySelector(".log .r")`)
		t.Logf("%s until the first lines are seen", time.Since(began).Round(time.Millisecond))
		b.run(t, watchPauses)
		b.await(t, `document.querySelector(".log .count").textContent === "1,000,000 lines."`)
		t.Logf("%s until all lines are indexed", time.Since(began).Round(time.Millisecond))
		require.Contains(t, value[[]string](t, b, seen)[0], "line 0: compiling package0")
		b.takePicture(t, "log-light", false)

		b.run(t, `const s = document.querySelector(".scroller"); s.focus(); s.scrollTop = s.scrollHeight`)
		b.await(t, seen+`.some((t) => t.includes("line 999999:"))`)
		require.Less(t, value[int](t, b, nodes), mostNodes)
		b.keys(t, kb.Home)
		b.await(t, seen+`.some((t) => t.includes("line 0:"))`)

		// Anywhere by the scroll bar, and from there on line by line, without gaps.
		b.run(t, `s.scrollTop = s.scrollHeight * 0.7`)
		b.await(t, seen+`.some((t) => /^line (6[89]|7[01])\d{4}/.test(t))`)
		for range 30 {
			b.keys(t, kb.PageDown)
			b.await(t, seen+`.length > 5`)
		}
		require.Empty(t, value[[]string](t, b, gaps), "lines that are missing between others")
		for range 40 {
			b.keys(t, kb.PageUp)
			b.await(t, seen+`.length > 5`)
		}
		require.Empty(t, value[[]string](t, b, gaps), "lines that are missing between others")
		require.Less(t, value[int](t, b, nodes), mostNodes)

		// A search, also in a closed group.
		began = time.Now()
		b.keys(t, "/")
		require.Equal(t, "log-search", value[string](t, b, `document.activeElement.id`))
		b.run(t, `document.activeElement.value = ""`) // chromedp types the key, although its event was prevented
		b.write(t, "#log-search", "line 700567: compiling")
		b.await(t, seen+`.some((t) => t.includes("line 700567:"))`)
		t.Logf("%s until a line is found and seen", time.Since(began).Round(time.Millisecond))
		b.await(t, `document.querySelector(".found").textContent === "1 of 1"`)
		require.Equal(t, "line 700567: compiling", value[string](t, b, `document.querySelector(".log .current mark").textContent`))
		b.takePicture(t, "log-found", false)
		require.Less(t, value[int](t, b, nodes), mostNodes)

		// The line of 10 MB.
		b.run(t, `document.querySelector("#log-search").value = ""`)
		b.write(t, "#log-search", "long 0123")
		b.await(t, `document.querySelector(".log .current button.more")`)
		require.Less(t, value[int](t, b, `document.querySelector(".log .current .t").textContent.length`), 5000)
		b.takePicture(t, "log-long", false)
		b.clickOn(t, ".log .current button.more")
		b.await(t, `document.querySelector(".log button.more[aria-expanded=true]") && document.querySelectorAll(".log .r").length > 50`)
		require.Less(t, value[int](t, b, `Math.max(...[...document.querySelectorAll(".log .t")].map((t) => t.textContent.length))`), 5000)
		require.Less(t, value[int](t, b, nodes), mostNodes)
		paused := value[float64](t, b, `window.longestPause`)
		t.Logf("the longest pause took %.0f ms; %d elements", paused, value[int](t, b, nodes))
		require.Less(t, paused, float64(longestPause))
	})
}

// gaps is an expression for the rows whose records don't follow on each other. Only closed groups
// leave some out.
const gaps = `[...document.querySelectorAll(".log .r")].filter((r, at, all) => at > 0 && !all[at - 1].classList.contains("head") && !all[at - 1].querySelector(".more") && Number(r.dataset.n) - Number(all[at - 1].dataset.n) > 101).map((r) => r.textContent)`

// A log that goes on is followed at its end until the reader scrolls back, and only then read out.
func TestTheEndOfALiveLogIsFollowed(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		more := make(chan string)
		at := serveLog(t, func(ctx context.Context, to *logview.Recorder) error {
			p := newPrinter(to)
			for n := range 500 {
				p.print(compile, fmt.Sprintf("old %d", n))
			}
			to.Live()
			for {
				select {
				case line, is := <-more:
					if !is {
						return p.failed
					}
					p.print(compile, line)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		b.visit(t, at, seen+`.includes("old 499")`)
		require.Equal(t, "log", value[string](t, b, `document.querySelector("[role=log]").getAttribute("role")`))
		for n := range 1500 {
			more <- fmt.Sprintf("new %d", n)
		}
		b.await(t, seen+`.includes("new 1499")`)
		b.await(t, `document.querySelector("[role=log]").textContent.includes("new 1499")`)
		require.Less(t, value[int](t, b, nodes), mostNodes)

		b.run(t, `document.querySelector(".scroller").focus()`)
		b.keys(t, kb.Home)
		b.await(t, seen+`.includes("old 0")`)
		b.await(t, `!document.querySelector("[role=log]")`)
		more <- "newest"
		b.await(t, `document.querySelector(".count").textContent.startsWith("2,001 lines")`)
		require.Contains(t, value[[]string](t, b, seen), "old 0", "what is read stays where it is")
		b.keys(t, "f")
		b.await(t, seen+`.includes("newest")`)
		close(more)
		b.await(t, `document.querySelector(".count").textContent === "2,001 lines."`)
		b.await(t, `!document.querySelector("[role=log]")`)
	})
}

// What containers print is hostile.
func hostile(_ context.Context, to *logview.Recorder) error {
	p := newPrinter(to)
	p.print(compile, `<script>document.title = "owned"</script><img src=x onerror="document.title = 'owned'">`, "\x1b[31mred\x1b[0m \x1b[1;30;47mon white\x1b[0m \x1b[7mreversed\x1b[0m", "a\u202eb\x00\xff", "\x1b]8;;javascript:document.title='owned'\x07link\x1b]8;;\x07", "10%\r50%\r100%")
	p.print(warnings, "to stderr")
	to.Note("A remark <b>about</b> the log.")
	p.failed = p.Add(logview.Line{Stream: proxy, Text: []byte("[entrypointer: 6 bytes were dropped]"), Ended: true, Gap: true})
	p.print(compile, "::group::</span><b>Group</b>")
	for n := range 300 {
		p.print(compile, fmt.Sprintf("line %d", n))
	}
	p.print(compile, "::endgroup::", "last")
	return p.failed
}

func TestALinkOpensItsLineAndHostileLinesStayText(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		at := serveLog(t, hostile)
		b.visit(t, at, seen+`.includes("last")`)
		require.Equal(t, "A log", value[string](t, b, `document.title`))
		require.Contains(t, value[[]string](t, b, seen), `a\u202eb\x00\xff`)
		require.Equal(t, 0, value[int](t, b, `document.querySelectorAll(".log b, .log img, .log script").length`))
		b.takePicture(t, "log-hostile", false)

		b.clickOn(t, "button.fold")
		b.await(t, seen+`.includes("line 3")`)
		link := value[string](t, b, `[...document.querySelectorAll(".log .r")].find((r) => r.querySelector(".t").textContent === "line 3").querySelector("a.n").href`)
		b.visit(t, "about:blank", `true`)
		b.visit(t, link, `document.querySelector(".log .target .t")?.textContent === "line 3"`)
		require.Equal(t, link, value[string](t, b, `document.activeElement.href`), "the line has the focus")
		b.prefers(t, "dark")
		b.takePicture(t, "log-dark", false)
		b.keys(t, "w")
		b.keys(t, "t")
		b.keys(t, "a")
		b.await(t, `document.querySelectorAll(".log .title").length === 2`)
		require.Equal(t, "true", value[string](t, b, `document.querySelector("[data-switch=times]").getAttribute("aria-pressed")`))
		b.takePicture(t, "log-apart", false)
	})
}

// The page asks what is known of the log, which is nothing so far, and then for the line of its address,
// which is there.
func TestALinkOpensALineThatIsReadMeanwhile(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		var asked atomic.Int64
		begin, printed := make(chan struct{}), make(chan struct{})
		at := serveLogs(t, func() string {
			if asked.Add(1) == 2 {
				close(begin)
				<-printed
			}
			return "key"
		}, func(_ context.Context, to *logview.Recorder) error {
			<-begin
			defer close(printed)
			p := newPrinter(to)
			for n := range 500 {
				p.print(compile, fmt.Sprintf("line %03d", n))
			}
			return p.failed
		})
		link := fmt.Sprintf("%s#log=c1:%d", at, 400*len("line 400\n"))
		b.visit(t, link, `document.querySelector(".log .target .t")?.textContent === "line 400"`)
		b.await(t, seen+`.includes("line 400")`)
		require.Equal(t, link, value[string](t, b, `document.activeElement.href`), "the line has the focus")
	})
}

// The last row is read again when another one follows, because a line may have grown.
func TestALinkToTheLastLineKeepsItsLineWhileMoreIsRead(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		more := make(chan struct{})
		at := serveLog(t, func(ctx context.Context, to *logview.Recorder) error {
			p := newPrinter(to)
			p.print(compile, "first", "last so far")
			select {
			case <-more:
				p.print(compile, "more")
				return p.failed
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		link := fmt.Sprintf("%s#log=c1:%d", at, len("first\n"))
		const marked = `document.querySelector(".log .target .t")?.textContent === "last so far"`
		b.visit(t, link, marked)
		close(more)
		b.await(t, seen+`.includes("more")`)
		require.True(t, value[bool](t, b, marked))
		require.Equal(t, link, value[string](t, b, `document.activeElement.href`), "the line has the focus")
	})
}

// The server closes a log that nobody has read for long, and reads it again when it is asked for.
func TestLinesOfALogThatIsReadAgainAreSeenAndFound(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		var opened atomic.Int64
		at := serveLogs(t, func() string { return fmt.Sprint(opened.Load()) }, func(_ context.Context, to *logview.Recorder) error {
			p := newPrinter(to)
			for n := range 3000 {
				p.print(compile, fmt.Sprintf("line %d", n))
			}
			return p.failed
		})
		b.visit(t, at, seen+`.includes("line 1")`)
		b.await(t, `document.querySelector(".log .state").textContent === "That is the whole log."`)

		opened.Add(1)
		b.run(t, `{ const s = document.querySelector(".scroller"); s.scrollTop = s.scrollHeight / 2 }`)
		b.await(t, seen+`.some((t) => t.startsWith("line "))`)
		b.run(t, `{ const s = document.querySelector(".scroller"); s.scrollTop = s.scrollHeight }`)
		b.await(t, seen+`.includes("line 2999")`)

		opened.Add(1)
		b.write(t, "#log-search", "line 1234")
		b.await(t, `document.querySelector(".found").textContent === "1 of 1"`)
		b.await(t, seen+`.includes("line 1234")`)
	})
}

// wrapping has a line that is wider than the page, and a group.
func wrapping(_ context.Context, to *logview.Recorder) error {
	p := newPrinter(to)
	p.print(compile, "wide "+strings.Repeat("word ", 500), "match one", "::group::Group", "match two", "::endgroup::", "match three")
	p.print(proxy, "beside")
	return p.failed
}

func TestEachKeyOfALogDoesWhatItsButtonDoes(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, serveLog(t, wrapping), whole+` && `+seen+`.includes("beside")`)
		pressed := func(name string) string {
			return `document.querySelector("[data-switch=` + name + `]").ariaPressed === "true"`
		}
		for _, key := range []struct{ key, name, effect string }{
			{"w", "wrap", `document.querySelector(".log .r .t").offsetHeight > 3 * document.querySelector(".log .r:last-child .t").offsetHeight`},
			{"t", "times", `document.querySelector(".log .r time").offsetWidth > 0`},
			{"u", "unfold", seen + `.includes("match two")`},
			{"a", "apart", `document.querySelectorAll(".log .title").length === 2`},
		} {
			is := value[bool](t, b, pressed(key.name))
			require.Equal(t, is, value[bool](t, b, key.effect), key.name)
			for range 2 {
				is = !is
				b.run(t, `document.querySelector(".scroller").focus()`)
				b.keys(t, key.key)
				b.await(t, fmt.Sprintf(`(%s) === %t && (%s) === %t`, pressed(key.name), is, key.effect, is))
			}
		}
		b.write(t, "#log-search", "match")
		b.await(t, `document.querySelector(".found").textContent === "1 of 3"`)
		b.keys(t, kb.Escape)
		for _, step := range []struct{ key, found, line string }{
			{"n", "2 of 3", "match two"}, {"n", "3 of 3", "match three"}, {"n", "1 of 3", "match one"}, {"N", "3 of 3", "match three"},
		} {
			b.keys(t, step.key)
			b.await(t, fmt.Sprintf(`document.querySelector(".found").textContent === %q && document.querySelector(".log .current .t")?.textContent === %q`, step.found, step.line))
		}
		b.keys(t, "/")
		require.Equal(t, "log-search", value[string](t, b, `document.activeElement.id`))
	})
}

func TestTabLeavesTheLog(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		at := serveLog(t, hostile)
		b.visit(t, at, seen+`.includes("last")`)
		b.run(t, `{ const behind = document.createElement("button"); behind.id = "behind"; document.querySelector(".log").after(behind) } document.querySelector(".scroller").focus()`)
		b.keys(t, kb.Tab)
		require.Equal(t, "fold", value[string](t, b, `document.activeElement.className`), "the button of the group")
		b.keys(t, kb.Tab)
		require.Equal(t, "behind", value[string](t, b, `document.activeElement.id`))
		b.run(t, `document.querySelector(".log a.n").focus()`)
		b.keys(t, "a")
		b.await(t, `document.querySelectorAll(".log .title").length === 2`)
		require.Equal(t, "scroller", value[string](t, b, `document.activeElement.className`), "its row was removed")
	})
}
