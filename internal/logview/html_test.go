// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// rendered returns the HTML of a line.
func rendered(text string, q *query) string {
	r := record{text: []byte(text)}
	if isPlain(r.text) {
		r.flags = plain
	}
	var m markup
	styled(&m, &r, q)
	return m.String()
}

func TestControlSequencesBecomeClasses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain <b>&amp;":                                   "plain &lt;b&gt;&amp;amp;",
		"\x1b[31mred\x1b[0m plain":                         `<span class="f1">red</span> plain`,
		"\x1b[1;4;92mall\x1b[22;24mless":                   `<span class="f10 bo un">all</span><span class="f10">less</span>`,
		"\x1b[m\x1b[;mnothing":                             "nothing",
		"\x1b[38;5;196mred\x1b[39m":                        `<span class="f9">red</span>`,
		"\x1b[38;5;244mgrey":                               `<span class="f8">grey</span>`,
		"\x1b[38;2;0;200;10mgreen":                         `<span class="f2">green</span>`,
		"\x1b[38:2::0:200:10mgreen":                        `<span class="f2">green</span>`,
		"\x1b[38:2:0:200:10mgreen":                         `<span class="f2">green</span>`,
		"\x1b[48;5;4;31mon blue":                           `<span class="b4">on blue</span>`,
		"\x1b[7mreversed":                                  `<span class="iv">reversed</span>`,
		"\x1b[7;31mreversed":                               `<span class="b1">reversed</span>`,
		"\x1b[58;5;1;3mitalic":                             `<span class="it">italic</span>`,
		"\x1b[8mconcealed\x1b[28m":                         "concealed",
		"\x1b[2K\x1b[1Aup\x1b[10;10Hthere\x1b(B":           "upthere",
		"\x1b]8;;https://a.test\x1b\\a link\x1b]8;;\x1b\\": "a link",
		"\x1b]0;title\x07text":                             "text",
		"10%\r20%\r100%":                                   `100% <span class="q">replaces 2 earlier</span>`,
		"windows\r":                                        "windows",
		"\x1b[31m10%\rred":                                 `<span class="f1">red</span> <span class="q">replaces 1 earlier</span>`,
		"cut \x1b[31":                                      `cut <span class="esc">\x1b</span>[31`,
		"a\u202eb\x00\xff\u200b":                           `a<span class="esc">\u202e</span>b<span class="esc">\x00</span><span class="esc">\xff</span><span class="esc">\u200b</span>`,
		"tab\there ünïcode 漢字":                             "tab\there ünïcode 漢字",
	} {
		require.Equal(t, want, rendered(text, nil), "%q", text)
	}
}

func TestMatchesAreMarkedAcrossStyles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, query, want string }{
		{"an Error <here>", "error", "an <mark>Error</mark> &lt;here&gt;"},
		{"con\x1b[31mnection refused", "connection", `<mark>con</mark><span class="f1"><mark>nection</mark> refused</span>`},
		{"aXbXc", "x", "a<mark>X</mark>b<mark>X</mark>c"},
		{"\xffX", `\xff`, `<span class="esc"><mark>\xff</mark></span>X`},
	} {
		q, err := newQuery(test.query, false, false)
		require.NoError(t, err)
		require.Equal(t, test.want, rendered(test.text, q))
	}
	q, err := newQuery("É+", false, false)
	require.NoError(t, err)
	require.Equal(t, "<mark>é+</mark>", rendered("é+", q), "a text isn't an expression")
	q, err = newQuery("b*", true, true)
	require.NoError(t, err)
	require.Equal(t, "a<mark>bb</mark>a", rendered("abba", q))
}

func FuzzWhateverIsPrintedHasOnlyOurMarkup(f *testing.F) {
	for _, seed := range []string{
		"plain", "<script>alert(1)</script>", "\x1b[31m<b>\x1b[0m", "a\rb\r\nc", "\x1b]8;;javascript:alert(1)\x07x", "\"'&<>\x00\xff\u202e",
		"::group::<img src=x onerror=alert(1)>", "::endgroup::", "\x1b[38;2;1;2;3;48;5;9;1mx", "\x1b[38:2::1:2:3mx", "\x1b[", "\x1b]", "</span></div></template>",
	} {
		f.Add(seed, "b", false)
	}
	f.Fuzz(func(t *testing.T, text, search string, isExpression bool) {
		q, err := newQuery(search, isExpression, false)
		if err != nil {
			q = nil
		}
		x, err := newIndex(t.TempDir(), &room{perLog: 1 << 20, total: 1 << 20}, &share{})
		require.NoError(t, err)
		defer func() { require.NoError(t, x.close()) }()
		lines := strings.Split(text, "\n")
		for _, line := range lines {
			require.NoError(t, (&Recorder{x}).Add(Line{Stream: Stream{ID: text, Name: search, Pod: text, Container: search}, Text: []byte(line), Ended: true}))
		}
		l := (&view{index: x, unfolded: true, hidden: map[int]bool{}}).layout()
		require.NoError(t, l.each(0, func(r row) bool {
			var m markup
			l.row(&m, r, q)
			requireOnlyOurs(t, m.Bytes())
			if r.flags&opensFold == 0 && !bytes.Contains(r.text, []byte("\r")) {
				m.Reset()
				styled(&m, &r.record, q)
				requireText(t, string(r.shown()), m.Bytes())
			}
			return true
		}))
	})
}

var (
	elements   = []string{"div", "a", "time", "span", "button", "mark"}
	attributes = []string{"class", "href", "data-n", "data-fold", "type", "aria-expanded", "tabindex", "title"}
	ourClass   = regexp.MustCompile(`^(r( gap| head)?( e)?|title|n|s|k|t|q|esc|unseen|fold|more|([fb](\d|1[0-5])|iv)?( ?(bo|di|it|un|st))*)$`)
	ourLink    = regexp.MustCompile(`^#log=[A-Za-z0-9%._~+-]*:\d+$`)
)

func parse(t *testing.T, markup []byte) []*html.Node {
	t.Helper()
	parsed, err := html.ParseFragment(bytes.NewReader(markup), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	require.NoError(t, err)
	return parsed
}

// all returns a node and what it has.
func all(n *html.Node) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		if !yield(n) {
			return
		}
		for below := range n.Descendants() {
			if !yield(below) {
				return
			}
		}
	}
}

// requireOnlyOurs requires that HTML has only what this package writes.
func requireOnlyOurs(t *testing.T, markup []byte) {
	t.Helper()
	for _, top := range parse(t, markup) {
		for n := range all(top) {
			require.Contains(t, []html.NodeType{html.ElementNode, html.TextNode}, n.Type, "%q", markup)
			if n.Type == html.TextNode {
				require.Equal(t, -1, strings.IndexFunc(n.Data, func(r rune) bool { return r != '\n' && printable.IsUnsafe(r) }), "%q", n.Data)
				continue
			}
			require.Contains(t, elements, n.Data)
			for _, a := range n.Attr {
				require.Contains(t, attributes, a.Key)
				switch a.Key {
				case "class":
					require.Regexp(t, ourClass, a.Val)
				case "href":
					require.Regexp(t, ourLink, a.Val)
				}
			}
		}
	}
}

// requireText requires that HTML shows a text.
func requireText(t *testing.T, want string, markup []byte) {
	t.Helper()
	var text strings.Builder
	for _, top := range parse(t, markup) {
		for n := range all(top) {
			if n.Type == html.TextNode {
				text.WriteString(n.Data)
			}
		}
	}
	require.Equal(t, want, text.String())
}

func FuzzPiecesAreCutWhereNothingBreaks(f *testing.F) {
	f.Add(strings.Repeat("0123456789abcdeß\x1b[31m", 40))
	f.Fuzz(func(t *testing.T, text string) {
		const size = 64
		whole := ""
		after, _ := show([]byte(strings.ReplaceAll(text, "\r", "")), style{}, func(token token) { whole += string(token.text) })
		rest, pieces, s := []byte(strings.ReplaceAll(text, "\r", "")), "", style{}
		for len(rest) > size {
			end := cut(rest, size)
			require.Positive(t, end)
			require.LessOrEqual(t, end, size)
			s, _ = show(rest[:end], s, func(token token) { pieces += string(token.text) })
			rest = rest[end:]
		}
		s, _ = show(rest, s, func(token token) { pieces += string(token.text) })
		if !strings.ContainsAny(text, "]PX^_") && len(text) < 100 { // strings can be longer than what is looked at
			require.Equal(t, whole, pieces)
			require.Equal(t, after, s)
		}
	})
}

var variable = regexp.MustCompile(`(--[a-z0-9-]+):\s*(#[0-9a-f]{6})`)

// colorsOf returns the colours of a style sheet, in the light scheme and in the dark one.
func colorsOf(t *testing.T, files ...string) (schemes [2]map[string]string) {
	t.Helper()
	schemes = [2]map[string]string{{}, {}}
	for _, file := range files {
		sheet, err := os.ReadFile(file)
		require.NoError(t, err)
		light, dark, both := strings.Cut(string(sheet), "prefers-color-scheme: dark")
		require.True(t, both, file)
		for scheme, text := range []string{light, dark} {
			for _, is := range variable.FindAllStringSubmatch(text, -1) {
				schemes[scheme][is[1]] = is[2]
			}
		}
	}
	return schemes
}

// luminance is that of WCAG 2.2.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	rgb, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	require.NoError(t, err, color)
	sum := 0.0
	for at, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb>>(16-8*at)&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestEachColorOfTextCanBeRead(t *testing.T) {
	t.Parallel()
	const page = "../page/assets/page.css"
	for scheme, colors := range colorsOf(t, page, "assets/logview.css") {
		texts := []string{"--text", "--quiet", "--link", "--bad", "--warn"}
		for n := range 16 {
			texts = append(texts, fmt.Sprint("--ansi-", n))
		}
		contrasts := [][2]string{{"--on-mark", "--mark"}, {"--page", "--text"}}
		for _, text := range texts {
			for _, ground := range []string{"--page", "--raised", "--current"} {
				contrasts = append(contrasts, [2]string{text, ground})
			}
		}
		for _, pair := range contrasts {
			values := []float64{luminance(t, colors[pair[0]]), luminance(t, colors[pair[1]])}
			slices.Sort(values)
			require.GreaterOrEqual(t, (values[1]+0.05)/(values[0]+0.05), 4.5, "%s on %s in scheme %d", pair[0], pair[1], scheme)
		}
	}
}

func TestASCIIIsFoldedInPlace(t *testing.T) {
	t.Parallel()
	for r := range unicode.MaxRune {
		if text := []byte(string(r)); r < 128 {
			require.Equal(t, bytes.ToLower(text), lowered(nil, text))
		} else if r < 0x3000 {
			require.Equal(t, text, lowered(nil, text))
		}
	}
}
