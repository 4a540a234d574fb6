// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/require"
)

// A board is what the tests read of the file that users import.
type board struct {
	SchemaVersion int
	Panels        []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  dashboard.GridPos
		Targets                  []struct{ RefID, Expr string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
	}
	Links      []struct{ URL string }
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readBoard(t *testing.T) (read board) {
	t.Helper()
	content, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &read))
	return read
}

func TestTheDashboardIsTheOneThatIsDescribedHere(t *testing.T) {
	described, err := Dashboard()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(dashboardFile, described, 0o644))
	}
	written, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	require.Equal(t, string(described), string(written), "go test . -run Dashboard -update, in test/monitoring, writes it")
}

var definition = regexp.MustCompile(`^label_values\((\{.*\}), ([a-z]+)\)$`)

// expressionsOfDashboard returns what panels and variables ask Prometheus for.
func expressionsOfDashboard(t *testing.T) (all []string) {
	t.Helper()
	read := readBoard(t)
	for _, panel := range read.Panels {
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, variable := range read.Templating.List {
		if variable.Type == "query" {
			parts := definition.FindStringSubmatch(variable.Definition)
			require.NotNil(t, parts, variable.Definition)
			all = append(all, "count by ("+parts[2]+") ("+parts[1]+")")
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

func TestEachPanelOfTheDashboardIsExplained(t *testing.T) {
	var ids []int
	for _, panel := range readBoard(t).Panels {
		require.NotZero(t, panel.ID, panel.Title)
		require.NotContains(t, ids, panel.ID, panel.Title)
		ids = append(ids, panel.ID)
		if panel.Type == "row" {
			continue
		}
		require.NotEmpty(t, panel.Description, panel.Title)
		require.NotEmpty(t, panel.Targets, panel.Title)
		for i, target := range panel.Targets {
			require.Equal(t, string(rune('A'+i)), target.RefID, panel.Title)
		}
		if panel.Type != "state-timeline" {
			require.NotEmpty(t, panel.FieldConfig.Defaults.Unit, panel.Title)
		}
	}
}

func TestEachLinkOfTheDashboardLeadsToAHeading(t *testing.T) {
	for _, link := range readBoard(t).Links {
		require.Regexp(t, `^\[.+\]\(.+\)\.$`, withLinks(t, link.URL))
	}
}

func TestEachLineOfTheDashboardIsFilled(t *testing.T) {
	filled := map[uint32]uint32{}
	for _, panel := range readBoard(t).Panels {
		filled[panel.GridPos.Y] += panel.GridPos.W
	}
	for y, columns := range filled {
		require.EqualValues(t, 24, columns, "the line at %d", y)
	}
}

var refusedInPage = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| refused \\|")

func TestTheDashboardKnowsEachRefusal(t *testing.T) {
	page, err := os.ReadFile(top + "/docs/metrics.md")
	require.NoError(t, err)
	var documented []string
	for _, row := range refusedInPage.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	var known []string
	for _, outcome := range refusals {
		known = append(known, string(outcome))
	}
	slices.Sort(documented)
	slices.Sort(known)
	require.Equal(t, documented, known)
}
