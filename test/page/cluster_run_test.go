// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/timeline"
)

// unlike is an expression for the bars of the chart that say something else than the rows of the table
// to which they lead.
const unlike = `[...document.querySelectorAll("#charts a[id]")].filter((bar) => {
	const row = document.querySelector(bar.getAttribute("href"));
	const [, container, , what, , took, reason] = [...row.cells].map((cell) => cell.textContent.trim());
	const kind = (of) => [...of.querySelector("rect").classList].filter((name) => name !== "open").join();
	return bar.getAttribute("aria-label") !== container + " " + what + " " + took + (reason && " (" + reason + ")") || kind(bar) !== kind(row);
}).map((bar) => bar.getAttribute("aria-label"))`

// spans is an expression for the rows of the table: the container, what it did, for what, and the end.
const spans = `[...document.querySelectorAll("#span-table tbody tr")].map((row) => [1, 3, 6, 7].map((at) => row.cells[at].textContent.trim()).join("|"))`

// eachRowHasABar is true if as many bars are drawn as the table has rows. Those of the critical path
// have no row.
const eachRowHasABar = `((bars) => bars > 0 && bars === document.querySelectorAll("#span-table tbody tr").length)(document.querySelectorAll("#charts a[id]").length)`

// cells returns an expression for the rows of the table of a section.
func cells(section string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("section[aria-labelledby=%s] tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))`, section)
}

// over is true once nothing of a run goes on.
const over = `document.getElementById("live")?.dataset.seconds === "0"`

// TestAPipelineRunOfTheClusterIsDrawnAndToldAlike compares the chart with the table, and both with
// what the command prints.
func TestAPipelineRunOfTheClusterIsDrawnAndToldAlike(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "pipelinerun/release", "--for=condition=Succeeded=False", "--timeout=4m")
	uid := of.run(t, "get", "pipelinerun/release", "-o", "jsonpath={.metadata.uid}")
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page+"pipelinerun/release/", over)
		require.Empty(t, value[[]string](t, b, unlike))
		require.True(t, value[bool](t, b, eachRowHasABar))
		require.Subset(t, value[[]string](t, b, `[...new Set([...document.querySelectorAll("#charts .chart .bar")].map((bar) => bar.classList[1]))]`),
			[]string{"starting", "pulling", "waiting", "hook", "running"})
		told := value[[]string](t, b, spans)
		require.Contains(t, told, "step-compile|waited|step-fetch|met")
		require.Subset(t, told, []string{"entrypointer-init|ran||exit code 0", "prepare|ran||exit code 0"}, "init containers")
		failed := regexp.MustCompile(`^step-unit\|ran\|(\d+ ms of it Tekton's entrypoint)?\|exit code 3$`)
		require.True(t, slices.ContainsFunc(told, failed.MatchString), "%q", told)
		require.Equal(t, []string{"step-unit"}, value[[]string](t, b, `[...document.querySelectorAll("#charts tr.failed th")].map((head) => head.textContent)`))
		stages := value[[][]string](t, b, cells("path"))
		require.Len(t, stages, 2, "nobody waited for lint: %v", stages)
		require.Equal(t, []string{"build", "test"}, []string{stages[0][0], stages[1][0]})
		require.Equal(t, 2, value[int](t, b, `document.querySelectorAll("#charts .bar.path").length`))
		handOffs := value[[][]string](t, b, cells("hand-offs"))
		require.Len(t, handOffs, 1)
		require.Equal(t, []string{"release-build-pod", "step-fetch", "step-compile"}, handOffs[0][:3])
		require.Regexp(t, `^(<1|\d+) ms$`, handOffs[0][3])
		require.Equal(t, strings.ReplaceAll(tracesAt, "{traceID}", strings.ReplaceAll(uid, "-", "")), value[string](t, b, `document.querySelector("#trace a").href`))

		for file, format := range map[string]string{"timeline.svg": "svg", "timeline.json": "json", "timeline.pftrace": "perfetto"} {
			encoded, err := b.evaluate(fmt.Sprintf(`fetch(%q).then((answer) => answer.arrayBuffer()).then((bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))))`, file))
			require.NoError(t, err)
			saved, err := base64.StdEncoding.DecodeString(encoded)
			require.NoError(t, err)
			require.Equal(t, of.asks(t, "timeline", "pipelinerun/release", "-o", format), string(saved), file)
			if format == "json" {
				require.Len(t, told, countSpans(t, saved), "the table has all spans")
			}
		}
		require.Empty(t, violations(t, b, axe(t)))
		b.clickOn(t, `nav.zoom a[href^="?zoom=8"]`)
		b.arrive(t, `document.querySelector("table.zoom-8") && ((s) => s.scrollWidth > 4 * s.clientWidth)(document.querySelector("#charts .scrolls"))`)
		require.Empty(t, value[[]string](t, b, unlike))
	})
}

// TestAPipelineRunOfTheClusterIsOpenedInPerfetto compares what the other window gets with what the
// command prints.
func TestAPipelineRunOfTheClusterIsOpenedInPerfetto(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "pipelinerun/release", "--for=condition=Succeeded=False", "--timeout=4m")
	inBrowsers(t, func(t *testing.T, b *browser) {
		perfetto, given, _ := servePerfetto(t)
		page, err := of.serve("--perfetto-url", perfetto)
		require.NoError(t, err)
		b.visit(t, page+"pipelinerun/release/", over+` && `+perfettoShown)
		b.clickOn(t, "#perfetto button")
		select {
		case got := <-given:
			require.Equal(t, of.asks(t, "timeline", "pipelinerun/release", "-o", "perfetto"), string(got.trace))
			require.Equal(t, "pipelinerun/release in "+of.namespace, got.title)
		case <-b.Done():
			require.Fail(t, "nothing was handed over")
		}
	})
}

// TestAPipelineRunOfTheClusterIsReadAsItsReaderPrefers follows bars by the keyboard, without motion and
// in dark colors.
func TestAPipelineRunOfTheClusterIsReadAsItsReaderPrefers(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "pipelinerun/release", "--for=condition=Succeeded=False", "--timeout=4m")
	inBrowsers(t, func(t *testing.T, b *browser) {
		const motion = `getComputedStyle(document.documentElement).scrollBehavior`
		b.visit(t, of.page+"pipelinerun/release/", over+` && `+whole)
		if b.name == "" { // Firefox is started with the preference
			require.Equal(t, "smooth", value[string](t, b, motion))
		}
		b.prefers(t, "light")
		b.await(t, motion+` === "auto"`)

		b.run(t, `document.querySelector("#charts a[id]").focus()`)
		b.keys(t, kb.Tab)
		require.True(t, value[bool](t, b, `document.activeElement === document.querySelectorAll("#charts a[id]")[1]`))
		row := value[string](t, b, `document.activeElement.getAttribute("href")`)
		b.keys(t, kb.Enter)
		b.await(t, `((row) => row && row.getBoundingClientRect().top >= 0 && row.getBoundingClientRect().bottom <= innerHeight)(document.querySelector("tr:target"))`)
		require.Equal(t, row, value[string](t, b, `location.hash`))

		b.requireNoViolationInTheDark(t)
	})
}

// requireNoViolationInTheDark has axe-core check a page in dark colors, and goes back to light ones.
func (b *browser) requireNoViolationInTheDark(t *testing.T) {
	t.Helper()
	const background = `getComputedStyle(document.body).backgroundColor`
	b.prefers(t, "dark")
	b.await(t, background+` === "rgb(13, 17, 23)"`)
	require.Empty(t, violations(t, b, axe(t)))
	b.prefers(t, "light")
	b.await(t, background+` === "rgb(255, 255, 255)"`)
}

// TestAPodOfTheClusterWithoutANodeSaysWhy looks at a pod that no node suits.
func TestAPodOfTheClusterWithoutANodeSaysWhy(t *testing.T) {
	of := ofTheCluster(t)
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page+"pod/nowhere/", `document.querySelector("#charts .bar.scheduling.open")`)
		b.await(t, spans+`.some((row) => /^\(pod\)\|had no node\|Unschedulable: .*node.*\|goes on$/.test(row))`)
		require.Empty(t, value[[]string](t, b, unlike))
	})
}

// countSpans returns how many spans a document has.
func countSpans(t *testing.T, document []byte) (count int) {
	t.Helper()
	var told timeline.Timeline
	require.NoError(t, json.Unmarshal(document, &told))
	for _, p := range told.Pods {
		count += len(p.Spans)
		for _, c := range p.Containers {
			count += len(c.Spans)
			for _, l := range c.Lives {
				count += len(l.Spans)
			}
		}
	}
	return count
}

// TestStartsOfAContainerOfTheClusterHaveABarEach looks at a container that waits for another one, fails
// and is started again, and at one that was stopped and is gone.
func TestStartsOfAContainerOfTheClusterHaveABarEach(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "rollout", "status", "deployment/web", "--timeout=4m")
	of.stop(t)
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page+"deployment/web/", `document.querySelector("#charts")`)
		b.await(t, spans+`.filter((row) => row.startsWith("api|ran|")).length === 2`)
		require.Empty(t, value[[]string](t, b, unlike))
		require.True(t, value[bool](t, b, eachRowHasABar))
		told := value[[]string](t, b, spans)
		require.Contains(t, told, "api|waited|db:ready|met")
		require.Contains(t, told, "api|ran||exit code 7")
		require.Contains(t, told, "api|ran||goes on")
		require.Contains(t, value[string](t, b, `document.querySelector("#state").textContent`), "ready")
		require.Contains(t, value[string](t, b, `[...document.querySelectorAll("#charts .chart tr")].find((row) => row.cells[0].textContent === "api").textContent`), "2 starts")
		require.Empty(t, violations(t, b, axe(t)))

		b.visit(t, of.page+"pod/stops/", `document.querySelector("#state .gone")`)
		b.await(t, seen+`.includes("stopped in order")`)
		require.Contains(t, value[[]string](t, b, spans), "main|stopped|SIGTERM|exit code 0")
		require.Empty(t, value[[]string](t, b, unlike))
	})
}
