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

// listed is an expression for the cells of a run in the list, by the heads of their columns.
func listed(run string) string {
	return fmt.Sprintf(`((heads, row) => row && Object.fromEntries(heads.map((head, at) => [head, row.cells[at].textContent.trim()])))(
		[...document.querySelectorAll("#runs th[scope=col]")].map((head) => head.textContent),
		[...document.querySelectorAll("#runs tbody tr")].find((row) => row.cells[0].textContent + "/" + row.cells[1].textContent === %q))`, run)
}

// names is an expression for the runs in the list, as TYPE/NAME.
const names = `[...document.querySelectorAll("#runs tbody tr")].map((row) => row.cells[0].textContent + "/" + row.cells[1].textContent)`

// TestTheListHasTheRunsOfTheCluster watches runs of each kind come to what they come to, also one that
// is deleted meanwhile, and chooses some.
func TestTheListHasTheRunsOfTheCluster(t *testing.T) {
	of := ofTheCluster(t)
	of.stop(t)
	require.NoError(t, of.create("taskrun.yaml", "name: steps", "name: passed"))
	of.run(t, "wait", "taskrun/passed", "--for=condition=Succeeded", "--timeout=4m")
	of.run(t, "delete", "taskrun/passed")
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, of.page, `document.querySelector("#runs tbody")`)
		for run, want := range map[string]struct{ state, printed, log string }{
			"pipelinerun/release": {"failed", "54 B54 bytes", "kept"},
			"job/report":          {"succeeded", "23 B23 bytes", "kept"},
			"deployment/web":      {"ready 1 of 1", "", "kept"},
			"ksvc/hello":          {"ready", "", "kept"},
			"pod/plain":           {"failed", "", ""},
			"pod/stops":           {"gone", "25 B25 bytes", "kept"},
			"taskrun/passed":      {"gone", "", "kept"},
			"pod/hostile":         {"succeeded", "", "kept"},
		} {
			b.await(t, fmt.Sprintf(`((row) => row && row.State.startsWith(%q) && row.Log === %q && row.Printed.includes(%q))(%s)`, want.state, want.log, want.printed, listed(run)))
			cells := value[map[string]string](t, b, listed(run))
			require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`, cells["Began (UTC)"], run)
			require.Regexp(t, `^\d+(s|m)`, cells["Ago"], run)
			hasEnd := want.state == "failed" || want.state == "succeeded"
			require.Equal(t, hasEnd, cells["Took"] != "", "%s: %v", run, cells)
		}
		require.NotContains(t, value[[]string](t, b, names), "revision/hello-00001", "it belongs to the Service")
		require.Empty(t, violations(t, b, axe(t)))

		b.write(t, "input[name=q]", "GONE"+kb.Enter)
		b.arrive(t, `location.search.includes("q=GONE") && document.querySelector("#runs")`)
		require.ElementsMatch(t, []string{"pod/stops", "taskrun/passed"}, value[[]string](t, b, names), "by a text")
		b.run(t, `document.querySelector("input[name=q]").value = ""`)
		b.write(t, "input[name=labels]", "app=shop"+kb.Enter)
		b.arrive(t, `location.search.includes("labels=app%3Dshop") && document.querySelector("#runs")`)
		require.Equal(t, []string{"pipelinerun/release"}, value[[]string](t, b, names), "by a label")
		b.clickOn(t, "input[name=parts]")
		b.clickOn(t, "form.filter button")
		b.arrive(t, `location.search.includes("parts=on") && document.querySelector("#runs")`)
		require.Subset(t, value[[]string](t, b, names), []string{"pipelinerun/release", "taskrun/release-build", "pod/release-test-pod"}, "with what belongs to it")
		b.visit(t, of.page+"?type=revision", `document.querySelector("#runs tbody")`)
		require.Equal(t, []string{"revision/hello-00001"}, value[[]string](t, b, names), "by its type")

		b.visit(t, of.page+"taskrun/passed/", `document.querySelector("#state .gone")`)
		b.await(t, seen+`.includes("built")`)
		require.Contains(t, value[[]string](t, b, spans), "step-build|waited|step-fetch|met")
		require.Empty(t, value[[]string](t, b, unlike))
	})
}
