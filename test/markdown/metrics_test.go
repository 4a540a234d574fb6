// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableOfMetricsHasTheirTypesAndLabels(t *testing.T) {
	page := written(t, "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"+
		"| `our_second_total` | counter | `reason`, `owner` | counts `things` |\n"+
		"| `our_first` | gauge | | 1 |\n"+
		"| `their_seconds` | histogram | `code` | takes time |\n"+
		"| `value` | no metric | |\n")
	metrics, err := Metrics(page, "our_")
	require.NoError(t, err)
	require.Equal(t, []Metric{
		{Name: "our_first", Type: "gauge"},
		{Name: "our_second_total", Type: "counter", Labels: []string{"owner", "reason"}},
	}, metrics)
	metrics, err = Metrics(page, "our_first", "their_")
	require.NoError(t, err)
	require.Len(t, metrics, 2)
	_, err = Metrics(page, "whose_")
	require.ErrorContains(t, err, `no row of a table begins with one of ["whose_"]`)
	_, err = Metrics(page + ".gone")
	require.ErrorContains(t, err, "page.md.gone")
}
