// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachBarEndsWhereTheNextBegins(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	tests := map[string]struct {
		seen life
		want []part
	}{
		"a server that waits and is stopped": {
			life{waiting: at(1), started: at(3), ready: at(4), stopping: at(8), ended: at(9)},
			[]part{{"waits", at(1), at(3)}, {"starts", at(3), at(4)}, {"works", at(4), at(8)}, {"stops", at(8), at(9)}},
		},
		"a container that waits for none and ends by itself": {
			life{started: at(2), ended: at(5)},
			[]part{{"starts", at(2), at(5)}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, test.seen.parts()) })
	}
}

func TestTheAxisHasAllThatWasSeen(t *testing.T) {
	began := time.Unix(100, 0)
	l := timeline{
		lives: []life{
			{container: "db", started: began, ready: began.Add(time.Second), stopping: began.Add(4 * time.Second), ended: began.Add(5 * time.Second)},
			{container: "web", waiting: began.Add(time.Second / 2), started: began.Add(time.Second), ended: began.Add(4 * time.Second)},
		},
		deleted: began.Add(3 * time.Second),
	}
	drawn := draw(l)
	require.Contains(t, drawn, `<rect class="starts" x="80" y="52" width="132" height="14"/>`)
	require.Contains(t, drawn, `<rect class="stops" x="608" y="52" width="132" height="14"/>`, "the last bar ends at the axis's end")
	require.Contains(t, drawn, `<line class="deleted" x1="476"`)
}
