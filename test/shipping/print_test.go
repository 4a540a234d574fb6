// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package shipping

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFasterClockReachesTheTimeOfTheRealOne(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	p := Pace{Every: time.Second, Speed: 30, Began: began, Lasts: 2 * time.Minute}
	require.Equal(t, began.Add(-58*time.Minute), p.First())
	require.Equal(t, began.Add(2*time.Minute), p.At(began.Add(p.Lasts)))
	text, marks, next := p.Text(7, 0, p.At(began.Add(time.Second)), 100)
	require.Equal(t, 31, next, "the first second has thirty")
	require.Len(t, marks, 31)
	require.EqualValues(t, 100, marks[0].At)
	further, _, last := p.Text(7, next, p.At(began.Add(2*time.Second)), 100+int64(len(text)))
	require.Equal(t, 61, last)
	whole, _, _ := p.Text(7, 0, p.At(began.Add(2*time.Second)), 100)
	require.Equal(t, whole, text+further, "no line is printed twice")
}
