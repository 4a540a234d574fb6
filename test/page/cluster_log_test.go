// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// rowOf is an expression for the row of a line.
func rowOf(line string) string {
	return `[...document.querySelectorAll(".log .r")].find((row) => row.querySelector(".t").textContent === "` + line + `")`
}

// search searches for a text, and waits for its only match.
func (b *browser) search(t *testing.T, text string) {
	t.Helper()
	b.run(t, `document.getElementById("log-search").value = ""`)
	b.write(t, "#log-search", text)
	b.await(t, `document.querySelector(".found").textContent === "1 of 1" && document.querySelector(".log .current mark")?.textContent === "`+text+`"`)
}

// TestWhatContainersOfTheClusterPrintStaysText has a pod print markup, control sequences, characters
// that hide others, bytes that are no text, a secret, and lines in a group.
func TestWhatContainersOfTheClusterPrintStaysText(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "pod/hostile", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=4m")
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page+"pod/hostile/", whole+` && `+seen+`.includes("last")`)
		lines := value[[]string](t, b, `[...document.querySelectorAll(".log .r .t")].map((line) => line.textContent)`)
		require.Subset(t, lines, []string{
			`<script>document.title = "owned"</script><img src=x onerror="document.title = 1">`,
			"red on white", "link cleared ", `a\u202eb\x00\xff`, "100% replaces 2 earlier",
			"the password is *************", "a warning", "</span><b>Group</b> 300 lines", "last", "beside 3",
		})
		require.Zero(t, value[int](t, b, `document.querySelectorAll(".log b, .log img, .log script").length`))
		require.Contains(t, value[string](t, b, `document.title`), "pod/hostile in "+of.namespace)
		require.Equal(t, "red", value[string](t, b, `document.querySelector(".log .f1").textContent`))
		require.Equal(t, "stderr", value[string](t, b, rowOf("a warning")+`.querySelector(".k").textContent`))
		require.True(t, value[bool](t, b, rowOf("last")+`.querySelector(".k") === null`), "it was printed to stdout")
		require.False(t, value[bool](t, b, `[...document.querySelectorAll("main *")].some((element) => element.textContent.includes("correct-horse"))`))
		require.Empty(t, violations(t, b, axe(t)))
		b.requireNoViolationInTheDark(t)
		b.requireKeys(t)

		require.NotContains(t, lines, "inside 217", "the group is closed")
		b.search(t, "inside 217")
		require.Equal(t, "inside 217", value[string](t, b, `document.querySelector(".log .current .t").textContent`))
		link := value[string](t, b, rowOf("inside 217")+`.querySelector("a.n").href`)
		// A search opens the group of its match again, whose lines take the place of a title.
		b.run(t, `document.getElementById("log-search").value = ""; document.querySelector(".log form").requestSubmit()`)
		b.await(t, `!document.querySelector(".log mark")`)
		b.run(t, `document.querySelector(".scroller").focus()`)
		b.keys(t, "a")
		b.await(t, `document.querySelectorAll(".log .title").length === 2`)
		b.keys(t, "a")
		b.await(t, `!document.querySelector(".log .title")`)

		b.visit(t, "about:blank", `true`)
		b.visit(t, link, `document.querySelector(".log .target .t")?.textContent === "inside 217"`)
		require.Equal(t, link, value[string](t, b, `document.activeElement.href`), "the line has the focus")
	})
}

// requireKeys presses the keys of the log of the pod hostile.
func (b *browser) requireKeys(t *testing.T) {
	t.Helper()
	for _, key := range []struct{ key, name, effect string }{
		{"w", "wrap", `[...document.querySelectorAll(".log .t")].find((line) => line.textContent.startsWith("wide ")).offsetHeight > 3 * ` + rowOf("last") + `.querySelector(".t").offsetHeight`},
		{"t", "times", rowOf("last") + `.querySelector("time").offsetWidth > 0`},
		{"u", "unfold", rowOf("inside 3") + ` !== undefined`},
	} {
		pressed := fmt.Sprintf(`document.querySelector("[data-switch=%s]").ariaPressed === "true"`, key.name)
		is := value[bool](t, b, pressed)
		require.Equal(t, is, value[bool](t, b, key.effect), key.name)
		for range 2 {
			is = !is
			b.run(t, `document.querySelector(".scroller").focus()`)
			b.keys(t, key.key)
			b.await(t, fmt.Sprintf(`(%s) === %t && (%s) === %t`, pressed, is, key.effect, is))
		}
	}
	b.write(t, "#log-search", "beside")
	b.await(t, `document.querySelector(".found").textContent === "1 of 3"`)
	b.keys(t, kb.Escape)
	require.Equal(t, "scroller", value[string](t, b, `document.activeElement.className`))
	for _, step := range []struct{ key, found, line string }{{"n", "2 of 3", "beside 2"}, {"n", "3 of 3", "beside 3"}, {"N", "2 of 3", "beside 2"}} {
		b.keys(t, step.key)
		b.await(t, fmt.Sprintf(`document.querySelector(".found").textContent === %q && document.querySelector(".log .current .t")?.textContent === %q`, step.found, step.line))
	}
	b.keys(t, "/")
	require.Equal(t, "log-search", value[string](t, b, `document.activeElement.id`))
}

// TestALinkToALineOfTheClusterSurvivesADeletionOfOthers takes a link from the page of a Job, has the
// line before deleted, and opens the link on the page of the pod.
func TestALinkToALineOfTheClusterSurvivesADeletionOfOthers(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "job/report", "--for=condition=Complete", "--timeout=4m")
	b := newChromium(t)
	b.visit(t, of.page+"job/report/", whole+` && `+seen+`.includes("last")`)
	hash := value[string](t, b, rowOf("last")+`.querySelector("a.n").hash`)
	pod := of.run(t, "get", "pods", "-l", "job-name=report", "-o", "jsonpath={.items[0].metadata.name}")
	of.asks(t, "delete-logs", "job/report", "--grep", "4711")
	b.visit(t, of.page+"pod/"+pod+"/"+hash, `document.querySelector(".log .target .t")?.textContent === "last"`)
	b.await(t, seen+`.join() === "first,***********,last"`)
}

// TestAMillionLinesOfTheClusterAreShownAndSearched has one of 10 MB among them.
func TestAMillionLinesOfTheClusterAreShownAndSearched(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "pod/million", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=4m")
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page+"pod/million/", `document.querySelector(".log .r")`)
		b.run(t, watchPauses)
		b.await(t, `document.querySelector(".log .count").textContent === "1,000,001 lines."`)
		b.run(t, `{ const s = document.querySelector(".scroller"); s.focus(); s.scrollTop = s.scrollHeight }`)
		b.await(t, seen+`.includes("line 999999: compiling")`)
		b.keys(t, kb.Home)
		b.await(t, seen+`.includes("line 0: compiling")`)
		b.search(t, "line 700567:")
		require.Equal(t, "line 700567: compiling", value[string](t, b, `document.querySelector(".log .current .t").textContent`))
		link := value[string](t, b, `document.querySelector(".log .current a.n").href`)
		b.search(t, "long x")
		b.clickOn(t, ".log .current button.more")
		b.await(t, `document.querySelectorAll(".log .r").length > 50`)
		require.Less(t, value[int](t, b, `Math.max(...[...document.querySelectorAll(".log .t")].map((t) => t.textContent.length))`), 5000)
		require.Less(t, value[int](t, b, nodes), mostNodes)
		require.Less(t, value[float64](t, b, `window.longestPause`), float64(longestPause))
		b.visit(t, "about:blank", `true`)
		b.visit(t, link, `document.querySelector(".log .target .t")?.textContent === "line 700567: compiling"`)
	})
}

// lastTick is an expression for the number that was printed last, among what is seen.
const lastTick = `Number(` + seen + `.findLast((line) => line.startsWith("tick "))?.slice(5) ?? 0)`

// TestALogOfTheClusterIsFollowedToItsEnd follows a pod that prints, looks at the gap of a container
// that has printed more than could be sent, and ends the pod.
func TestALogOfTheClusterIsFollowedToItsEnd(t *testing.T) {
	of := ofTheCluster(t)
	inBrowsers(t, func(t *testing.T, b *browser) {
		pod := "live" + b.name
		require.NoError(t, of.create("live.yaml", "name: live", "name: "+pod))
		of.run(t, "wait", "pod/"+pod, "--for=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=0", "--timeout=4m")
		b.visit(t, of.page+"pod/"+pod+"/", `document.querySelector(".log .state").textContent === "New lines appear as they are printed."`)
		b.await(t, lastTick+` > 0`)
		b.await(t, fmt.Sprintf(lastTick+` > %d`, value[int](t, b, lastTick)))
		b.await(t, `document.querySelector("[role=log]")?.textContent.includes("tick")`)
		require.Equal(t, 1, value[int](t, b, `document.querySelectorAll("[role=log]").length`))
		require.Equal(t, "true", value[string](t, b, `document.querySelector("[data-switch=follow]").getAttribute("aria-pressed")`))

		b.search(t, "behind the gap")
		b.await(t, `!document.querySelector("[role=log]")`)
		b.await(t, `/^\[entrypointer: \d+ bytes were dropped\]$/.test(document.querySelector(".log .r.gap .t")?.textContent)`)
		require.Equal(t, "gap ·", value[string](t, b, `document.querySelector(".log .r.gap a.n").textContent`))
		require.Empty(t, violations(t, b, axe(t)))

		b.run(t, `document.querySelector(".scroller").focus()`)
		b.keys(t, "f")
		of.run(t, "exec", pod, "-c", "main", "--", "touch", "/tmp/enough")
		b.await(t, seen+`.includes("that was all")`)
		b.await(t, whole)
		b.await(t, `!document.querySelector("[role=log]")`)
	})
}
