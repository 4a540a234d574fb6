// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// A row has a title, under which its panels fold away.
type row struct {
	title  string
	panels []panel
}

type panel = cog.Builder[dashboard.Panel]

// A query is an expression, and the name of its series, in which {{label}} is a label's value.
type query struct{ expression, series string }

// perSecond adds up by a label how fast counters grow. matchers may be empty.
func perSecond(counter, label, matchers string) query {
	return query{fmt.Sprintf("sum by (%s) (rate(%s{$selected%s}[$__rate_interval]))", label, counter, and(matchers)), "{{" + label + "}}"}
}

// inTotal adds up how fast counters grow.
func inTotal(series, counter, matchers string) query {
	return query{fmt.Sprintf("sum(rate(%s{$selected%s}[$__rate_interval]))", counter, and(matchers)), series}
}

// quantiles are the median and the 99th percentile of a histogram.
func quantiles(histogram string) []query {
	const expression = "histogram_quantile(%s, sum by (le) (rate(%s_bucket{$selected}[$__rate_interval])))"
	return []query{
		{fmt.Sprintf(expression, "0.5", histogram), "p50"},
		{fmt.Sprintf(expression, "0.99", histogram), "p99"},
	}
}

// p99By is the 99th percentile of a histogram for each value of a label.
func p99By(label, histogram string) query {
	return query{fmt.Sprintf("histogram_quantile(0.99, sum by (le, %s) (rate(%s_bucket{$selected}[$__rate_interval])))", label, histogram), "{{" + label + "}}"}
}

func and(matchers string) string {
	if matchers == "" {
		return ""
	}
	return "," + matchers
}

// target is the panel's query of this index.
func (q query) target(index int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(datasource()).RefId("ABC"[index : index+1]).
		Expr(strings.ReplaceAll(q.expression, "$selected", selected)).LegendFormat(q.series)
}

// The dashboard has 24 columns. Panels have a third of them, or half where only two are
// beside each other, and numbers an eighth.
const (
	third, half, eighth  = 8, 12, 3
	height, numberHeight = 8, 4
)

// The units of Grafana.
const (
	perSecondUnit = "cps"
	requestsUnit  = "reqps"
	bytesUnit     = "bytes"
	bytesPerUnit  = "binBps"
	secondsUnit   = "s"
	shareUnit     = "percentunit"
	plainUnit     = "short"
)

// lines returns a panel with a line over time for each series.
func lines(title, about, unit string, queries ...query) *timeseries.PanelBuilder {
	builder := timeseries.NewPanelBuilder().Title(title).Description(about).
		Datasource(datasource()).Span(third).Height(height).
		Unit(unit).Min(0).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).
			DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range queries {
		builder.WithTarget(q.target(i))
	}
	return builder
}

// withLimit draws a line at a limit, from which on an alert fires or something is refused.
func withLimit(builder *timeseries.PanelBuilder, limit float64) *timeseries.PanelBuilder {
	return builder.Thresholds(good().from(limit, "red").builder()).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// withFloor draws a line at a limit, below which an alert fires.
func withFloor(builder *timeseries.PanelBuilder, limit float64) *timeseries.PanelBuilder {
	return builder.Thresholds(bad().from(limit, "green").builder()).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
}

// number returns a panel with the current value of one series, in a colour.
func number(title, about, unit, expression string, colours colours) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Description(about).
		Datasource(datasource()).Span(eighth).Height(numberHeight).
		Unit(unit).Thresholds(colours.builder()).
		Orientation(common.VizOrientationAuto).
		ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeArea).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(query{expression, title}.target(0))
}

// states returns a panel with the periods in which a series had each of the values.
func states(title, about string, q query, values map[string]dashboard.ValueMappingResult) *statetimeline.PanelBuilder {
	return statetimeline.NewPanelBuilder().Title(title).Description(about).
		Datasource(datasource()).Span(third).Height(height).
		Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: values}}}).
		WithTarget(q.target(0))
}

// colours are those of a value from certain bounds on.
type colours []dashboard.Threshold

// good is the colour of the lowest values, where high ones are bad, and bad the opposite.
func good() colours { return colours{{Color: "green"}} }
func bad() colours  { return colours{{Color: "red"}} }

func (c colours) from(bound float64, colour string) colours {
	return append(c, dashboard.Threshold{Value: &bound, Color: colour})
}

func (c colours) builder() *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(c)
}
