// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Metric is a metric as Prometheus names it, with the labels that the program gives it.
type Metric struct {
	Name, Type string
	Labels     []string // in the order of the alphabet
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\|([^|]*)\\|")
	metricKey = regexp.MustCompile("`([a-z_]+)`")
)

// Metrics returns the metrics of a page's table, of which a row is
//
//	| `name` | counter | `label`, `label` | meaning |
//
// and whose names begin with one of the prefixes. They have the order of their names.
func Metrics(file string, prefixes ...string) (metrics []Metric, _ error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		m := Metric{Name: row[1], Type: row[2]}
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(m.Name, prefix) }) {
			continue
		}
		for _, label := range metricKey.FindAllStringSubmatch(row[3], -1) {
			m.Labels = append(m.Labels, label[1])
		}
		slices.Sort(m.Labels)
		metrics = append(metrics, m)
	}
	if metrics == nil {
		return nil, fmt.Errorf("looking for metrics in %s: no row of a table begins with one of %q and a type", file, prefixes)
	}
	SortMetrics(metrics)
	return metrics, nil
}

// SortMetrics brings metrics into the order of their names.
func SortMetrics(metrics []Metric) {
	slices.SortFunc(metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
}
