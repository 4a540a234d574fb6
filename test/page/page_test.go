// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"flag"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// pictures is a folder for screenshots.
var pictures = flag.String("pictures", "", "write screenshots to this folder")

// ends end what tests share, once all have run.
var ends []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(ends) {
		end()
	}
	os.Exit(code)
}

// The pages of the tests, by the names of their screenshots.
var pages = map[string]string{
	"runs":    "/namespaces/team-a/",
	"release": "/namespaces/team-a/pipelinerun/release/",
	"web":     "/namespaces/team-a/deployment/web/",
	"nightly": "/namespaces/team-a/taskrun/nightly/",
	"hostile": "/namespaces/team-a/pod/hostile/",
	"zoom":    "/namespaces/team-a/pipelinerun/release/?zoom=4",
}

// TestTheBrowserHasNoComplaint opens each page in both color schemes.
func TestTheBrowserHasNoComplaint(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		at := serve(t, pagetest.New())
		for _, colors := range []string{"light", "dark"} {
			if b.name != "" && colors == "dark" && *pictures == "" {
				continue // the same style sheet, and Firefox is slow
			}
			b.prefers(t, colors)
			for name, path := range pages {
				b.visit(t, at+path, `document.querySelector("h1")`)
				if name == "release" {
					b.await(t, `document.querySelector("#logs a.n") !== null`) // its lines have come
				}
				require.NotContains(t, value[string](t, b, "document.title"), "read", name)
				b.takePicture(t, name+"-"+colors, true)
			}
		}
	})
}

// TestThePolicyForbidsOtherScripts has a page do what markup of an attacker would: run a
// script and a handler, take a style, and send something elsewhere.
func TestThePolicyForbidsOtherScripts(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		at := serve(t, pagetest.New())
		b.visit(t, at+pages["runs"], `document.querySelector("h1")`)
		b.run(t, `
			document.addEventListener("securitypolicyviolation", (e) => { (window.violated ??= []).push(e.effectiveDirective); });
			const script = document.createElement("script");
			script.textContent = "window.isAttacked = true";
			document.body.append(script);
			document.body.insertAdjacentHTML("beforeend", '<p id="attacked" style="color: red" onclick="window.isAttacked = true"></p><img src="http://127.0.0.1:1/">');
			document.getElementById("attacked").click();
			fetch("http://127.0.0.1:1/").catch(() => {});`)
		b.await(t, `["script-src-elem", "script-src-attr", "style-src-attr", "img-src", "connect-src"].every((d) => window.violated?.includes(d))`)
		require.False(t, value[bool](t, b, `window.isAttacked === true`))
		b.requireComplaint(t, "Policy")
	})
}

// TestTheKeyboardReachesEveryBar walks through the page of a run, follows the link of a bar,
// and expects the row that says the same.
func TestTheKeyboardReachesEveryBar(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		at := serve(t, pagetest.New())
		b.visit(t, at+pages["release"], `document.querySelector("#charts")`)
		bars := value[[]string](t, b, `Array.from(document.querySelectorAll("#charts a[id]"), (a) => a.id)`)
		require.Greater(t, len(bars), 20)
		reached := []string{}
		for range 200 {
			b.keys(t, kb.Tab)
			id := value[string](t, b, `document.activeElement.id`)
			if len(bars) > len(reached) && id == bars[len(reached)] {
				reached = append(reached, id)
			}
			if len(reached) == len(bars) {
				break
			}
		}
		require.Equal(t, bars, reached)
		label := value[string](t, b, `document.activeElement.getAttribute("aria-label")`)
		b.keys(t, kb.Enter)
		b.await(t, `document.querySelector("tr:target")`)
		row := value[[]string](t, b, `Array.from(document.querySelector("tr:target").cells, (c) => c.textContent.trim())`)
		for _, column := range []int{1, 3, 5} { // container, what, took
			require.Contains(t, label, row[column])
		}
	})
}

// TestAChangeArrivesWithoutAReload restarts a container while its page is open.
func TestAChangeArrivesWithoutAReload(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		cluster := pagetest.New()
		at := serve(t, cluster)
		b.visit(t, at+pages["web"], `document.querySelector("#charts")`)
		b.run(t, `document.querySelector("#charts .chart a[id]").focus()`)
		b.run(t, `window.isTheSame = document.querySelector("#charts .scrolls").isTheSame = true`)
		focused := value[string](t, b, `document.activeElement.id`)
		require.NotEmpty(t, focused)
		changed := pagetest.WebPod(2)
		cluster.Set("pods", changed.Name, changed)
		b.await(t, `document.getElementById("span-table").textContent.includes("~2m30s")`)
		require.True(t, value[bool](t, b, `window.isTheSame === true`), "the page was loaded again")
		require.True(t, value[bool](t, b, `document.querySelector("#charts .scrolls").isTheSame === true`), "what can be scrolled was replaced")
		require.Equal(t, focused, value[string](t, b, `document.activeElement.id`), "the focus stays where it was")
	})
}

// TestAChangeThatCantBeReadIsTold has the API server refuse what the page shows, and answer
// again in the end.
func TestAChangeThatCantBeReadIsTold(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		cluster := pagetest.New()
		at := serve(t, cluster)
		b.visit(t, at+pages["web"], `document.querySelector("#charts")`)
		cluster.Refuse("logs", http.StatusNotFound)
		for _, refused := range []struct {
			code  int
			words string
		}{
			{http.StatusForbidden, "You may not read that any more"},
			{http.StatusInternalServerError, "The API server doesn't tell: reload the page to see why"},
			{http.StatusNotFound, "It is gone"},
			{0, "Live"},
		} {
			cluster.Refuse("deployments", refused.code)
			b.clickOn(t, "#live-pause")
			b.clickOn(t, "#live-pause") // and resume, which asks at once
			b.await(t, `document.getElementById("live-note").textContent === "`+refused.words+`"`)
		}
		b.requireComplaint(t, "status")
	})
}

// TestTheFocusStaysOnARunOfTheList has a new run arrive above the one that has the focus.
func TestTheFocusStaysOnARunOfTheList(t *testing.T) {
	cluster := pagetest.New()
	at, b := serve(t, cluster), newChromium(t)
	b.do(t, chromedp.Navigate(at+pages["runs"]), chromedp.Focus(chromedp.CSS("a[href$='/job/report/']")))
	cluster.Set("jobs", "newest", map[string]any{"metadata": map[string]any{"name": "newest", "creationTimestamp": pagetest.Now}})
	b.do(t, until(`document.querySelector("#runs tbody a").textContent === "newest"`))
	require.Equal(t, "report", value[string](t, b, `document.activeElement.textContent`))
}

// TestUpdatesCanBePaused pauses, and expects no change until they are resumed.
func TestUpdatesCanBePaused(t *testing.T) {
	inBrowsers(t, func(t *testing.T, b *browser) {
		cluster := pagetest.New()
		at := serve(t, cluster)
		b.visit(t, at+pages["web"], `true`)
		b.clickOn(t, "#live-pause")
		b.await(t, `document.getElementById("live-note").textContent === "Paused"`)
		before := value[string](t, b, `document.getElementById("charts").innerHTML`)
		changed := pagetest.WebPod(2)
		cluster.Set("pods", changed.Name, changed)
		require.Equal(t, before, value[string](t, b, `document.getElementById("charts").innerHTML`))
		b.clickOn(t, "#live-pause")
		b.await(t, `document.getElementById("span-table").textContent.includes("~2m30s")`)
	})
}
