// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStreamIsTidiedAgainWhenThatIsWorthAListing(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		done   TidyResult
		silent time.Duration
		keep   time.Duration
		want   time.Duration
	}{
		"it grows by a line a second that lingers": {TidyResult{Recent: 10}, 0, 30 * 24 * time.Hour, time.Hour},
		"it grows by four parts a second":          {TidyResult{Recent: 1200}, 0, 0, 30 * time.Second},
		"its retention is short":                   {TidyResult{Recent: 10}, 0, 3 * time.Hour, 3 * time.Hour / trimSlack},
		"it has just ended":                        {TidyResult{Recent: 10, Ended: true}, time.Minute, 0, settleTime - time.Minute},
		"it has ended, and copies are left":        {TidyResult{Ended: true, Copies: 1}, time.Hour, 0, 0},
		"it has ended, and was joined":             {TidyResult{Ended: true, Joined: 1}, time.Hour, 0, 0},
		"it has ended long ago":                    {TidyResult{Ended: true}, 8 * time.Hour, 0, AtRest},
		"it is silent":                             {TidyResult{}, 20 * time.Minute, 0, idleAfter - 20*time.Minute},
		"it is silent for long":                    {TidyResult{}, 40 * time.Hour, 0, AtRest},
	} {
		test.done.Last = now.Add(-test.silent)
		require.Equal(t, test.want, test.done.NextTidy(now, test.keep), name)
	}
}

func TestTheNewObjectsOfAStreamAreCountedUntilTheyAreSettled(t *testing.T) {
	m, s, id := openMemory(t)
	for at := range int64(7) {
		require.NoError(t, s.Write(t.Context(), id, at, []byte("x")))
	}
	require.NoError(t, s.Drop(t.Context(), id, Range{7, 9}))
	for passed, want := range map[time.Duration]int{0: 8, settleTime: 0} {
		done, err := s.Tidy(t.Context(), id, m.now.Add(passed), 0)
		require.NoError(t, err)
		require.Equal(t, want, done.Recent)
	}
}
