// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/markdown"
)

func TestPrometheusTakesTheRules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint=all", "--lint-fatal", rulesFile).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestAlertsFireInTheirCasesAndNoOthers(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", monitoring+"rules_test.yaml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestEachAlertHasACaseInWhichItFires(t *testing.T) {
	content, err := os.ReadFile(monitoring + "rules_test.yaml")
	require.NoError(t, err)
	var file struct {
		Tests []struct {
			Exprs []struct {
				Samples []struct{ Labels string } `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &file))
	var fires strings.Builder
	for _, test := range file.Tests {
		for _, expr := range test.Exprs {
			for _, sample := range expr.Samples {
				fires.WriteString(sample.Labels)
			}
		}
	}
	for _, alert := range alerts(t) {
		require.Contains(t, fires.String(), `ALERTS{alertname="`+alert.Alert+`",alertstate="firing"`)
	}
}

const operations = top + "/docs/operations.md"

// TestThePageHasEachAlert makes the alerts of docs/operations.md, with a heading for each,
// of rules.yaml.
func TestThePageHasEachAlert(t *testing.T) {
	var text strings.Builder
	text.WriteString("| alert | severity | after | means |\n| --- | --- | --- | --- |\n")
	for _, alert := range alerts(t) {
		after := "at once"
		if alert.For != 0 {
			after = alert.For.String()
		}
		fmt.Fprintf(&text, "| [`%s`](#%s) | %s | %s | %s |\n", alert.Alert, strings.ToLower(alert.Alert),
			alert.Labels["severity"], after, markdown.FirstSentence(withLinks(t, alert.Annotations["description"])))
	}
	for _, alert := range alerts(t) {
		fmt.Fprintf(&text, "\n### %s\n\n```promql\n%s\n```\n\n%s\n", alert.Alert, alert.Expr, withLinks(t, alert.Annotations["description"]))
	}
	if *update {
		require.NoError(t, markdown.ReplaceSection(operations, "alerts", text.String()))
	}
	written, err := markdown.Section(operations, "alerts")
	require.NoError(t, err)
	require.Equal(t, text.String(), written, "go test . -run Page -update, in test/monitoring, writes it")
}

var address = regexp.MustCompile(regexp.QuoteMeta(pages) + `([a-z-]+\.md)(?:#([a-z0-9-]+))?`)

// withLinks replaces the addresses of pages by links with the text of the heading that they
// lead to. After an address at the end of the text, which has no full stop, comes one.
func withLinks(t *testing.T, text string) string {
	t.Helper()
	text = address.ReplaceAllStringFunc(text, func(found string) string {
		parts := address.FindStringSubmatch(found)
		headings, err := markdown.Headings(top + "/docs/" + parts[1])
		require.NoError(t, err)
		require.Contains(t, headings, parts[2], found)
		link := strings.TrimPrefix(strings.TrimPrefix(found, pages), "operations.md#")
		if link == parts[2] {
			link = "#" + link
		}
		return "[" + headings[parts[2]] + "](" + link + ")"
	})
	return strings.TrimSuffix(text, ".") + "."
}

func TestEachAlertLeadsToWhatToDo(t *testing.T) {
	headings, err := markdown.Headings(operations)
	require.NoError(t, err)
	for _, alert := range alerts(t) {
		require.Contains(t, []string{"critical", "warning", "info"}, alert.Labels["severity"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
		page, anchor, _ := strings.Cut(alert.Annotations["runbook_url"], "#")
		require.Equal(t, pages+"operations.md", page, alert.Alert)
		require.Equal(t, alert.Alert, headings[anchor], "where the alert leads to")
	}
}
