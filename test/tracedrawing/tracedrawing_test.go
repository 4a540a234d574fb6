// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tracedrawing

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATraceIsDrawnAsATree(t *testing.T) {
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	span := func(id, parent, name string, after, took int) Span {
		return Span{ID: id, Parent: parent, Name: name, Start: noon.Add(time.Duration(after) * time.Millisecond), Took: time.Duration(took) * time.Millisecond}
	}
	drawing, err := Draw("A <trace>", []Span{
		span("5", "4", "run", 6000, 4000), span("4", "1", "test", 5000, 5000), span("3", "2", "wait", 0, 1000), span("1", "", "RUN", 0, 10_000), span("6", "2", "run", 1000, 0), span("2", "gone", `"lint" & co`, 0, 4000),
	})
	require.NoError(t, err)
	var rows []string
	for _, row := range regexp.MustCompile(`<text x="(\d+)" y="\d+" dy="11">([^<]*)</text><rect class="(\w+)" x="([\d.]+)" y="\d+" width="([\d.]+)"`).FindAllStringSubmatch(string(drawing), -1) {
		rows = append(rows, strings.Join(row[1:], " "))
	}
	require.Equal(t, []string{
		"8 &#34;lint&#34; &amp; co above 200 196", "24 wait wait 200 49", "24 run bar 249 2",
		"8 RUN above 200 490", "24 test above 445 245", "40 run bar 494 196",
	}, rows)
	require.Contains(t, string(drawing), ">2s</text>\n")
	require.Contains(t, string(drawing), `aria-label="A &lt;trace&gt;"`)
	for decoder := xml.NewDecoder(strings.NewReader(string(drawing))); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

func TestWhatIsNoTreeIsntDrawn(t *testing.T) {
	_, err := Draw("", nil)
	require.ErrorContains(t, err, "0 spans")
	_, err = Draw("", []Span{{ID: "1", Parent: "2"}, {ID: "2", Parent: "1"}})
	require.ErrorContains(t, err, "below themselves")
	_, err = Draw("", make([]Span, mostRows+1))
	require.ErrorContains(t, err, "201 spans")
}
