// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// schemaVersion is the version of the format that Grafana 11.0 writes. Later versions
// convert it when they load it.
const schemaVersion = 39

// pages is where links of the dashboard lead.
const pages = "https://github.com/entrypointer/entrypointer/blob/main/docs/"

// Dashboard returns the dashboard as Grafana imports it.
func Dashboard() ([]byte, error) {
	//nolint:staticcheck // Grafana 11 doesn't read the format that is preferred.
	builder := dashboard.NewDashboardBuilder("entrypointer").
		Uid("entrypointer").
		Description("The injector and the log service of entrypointer.").
		Tags([]string{"entrypointer"}).
		Time("now-6h", "now").
		Refresh("1m").
		Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(pageLink("What to do on alerts", "operations.md#alerts")).
		Link(pageLink("Metrics of the injector", "metrics.md")).
		Link(pageLink("Metrics of the log service", "operating-logs.md#metrics-of-the-service")).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(chosen("namespace", "Namespace", "")).
		WithVariable(chosen("job", "Job", `namespace=~"$namespace"`)).
		WithVariable(chosen("pod", "Pod", `namespace=~"$namespace",job=~"$job"`))
	for _, row := range append(injectorRows(), logServiceRows()...) {
		builder.WithRow(dashboard.NewRowBuilder(row.title))
		for _, panel := range row.panels {
			builder.WithPanel(panel)
		}
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	built.SchemaVersion = schemaVersion
	for i := range built.Panels {
		// Grafana numbers panels that have no number, and then the dashboard differs from its file.
		id := uint32(i + 1)
		if row := built.Panels[i].RowPanel; row != nil {
			row.Id = id
		} else {
			built.Panels[i].Panel.Id = &id
		}
	}
	content, err := json.MarshalIndent(built, "", "  ")
	return append(content, '\n'), err
}

func pageLink(title, page string) *dashboard.DashboardLinkBuilder {
	return dashboard.NewDashboardLinkBuilder(title).Type(dashboard.DashboardLinkTypeLink).
		Icon("doc").Url(pages + page).TargetBlank(true)
}

// selected restricts a query to what the reader chooses. A query has it as $selected.
const selected = `namespace=~"$namespace",job=~"$job",pod=~"$pod"`

// chosen returns a variable whose values are those of a label of both servers. All values
// are chosen at first, with ".*", which a series without the label matches as well: a
// Prometheus outside of Kubernetes may know no namespace and no pod.
func chosen(label, title, matchers string) *dashboard.QueryVariableBuilder {
	servers := `{__name__=~"entrypointer_build_info|entrypointer_logs_build_info"`
	if matchers != "" {
		servers += "," + matchers
	}
	query := "label_values(" + servers + "}, " + label + ")"
	all := "$__all"
	return dashboard.NewQueryVariableBuilder(label).Label(title).
		Datasource(datasource()).
		Query(dashboard.StringOrMap{String: &query}).
		Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{all}},
		})
}

// datasource is the Prometheus that the reader chooses.
func datasource() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}
