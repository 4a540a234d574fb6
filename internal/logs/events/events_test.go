// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyLinesOfPossibleTimesAreEvents(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	to := from.Add(time.Hour)
	for line, is := range map[string]bool{
		`{"time":"2026-11-28T10:00:00Z","event":"exited","exitCode":3}`:                       true,
		`{"time":"2026-11-28T11:09:59Z","event":"exited","exitCode":3,"unknown":[1]}`:         true,
		`{"time":"2026-11-28T09:59:59Z","event":"exited","exitCode":3}`:                       false,
		`{"time":"2026-11-28T11:10:01Z","event":"exited","exitCode":3}`:                       false,
		`{"time":"2026-11-28T10:00:00Z","event":"exited","exitCode":"3"}`:                     false,
		`{"time":"2026-11-28T10:00:00Z","event":"exited","exitCode":3`:                        false,
		`{"event":"exited","exitCode":3}`:                                                     false,
		`[entrypointer: 12 bytes are missing]`:                                                false,
		``:                                                                                    false,
		`{"time":"2026-11-28T10:00:00Z","event":"exited","exitCode":99999999999999999999999}`: false,
	} {
		e, got := Parse([]byte(line), from, to)
		require.Equal(t, is, got, line)
		if !is {
			require.Zero(t, e, line)
			continue
		}
		require.Equal(t, "exited", e.Event)
		require.EqualValues(t, 3, *e.ExitCode)
	}
}
