// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventuallySaysWhatItAwaitedAndWhyInVain(t *testing.T) {
	err := Eventually(t.Context(), time.Millisecond, "rain", func(context.Context) error { return errors.New("sunny") })
	require.ErrorContains(t, err, "waiting for rain: time was up after 0s: sunny")
}

func TestEventuallyGivesUpWhenTold(t *testing.T) {
	tries := 0
	err := Eventually(t.Context(), time.Hour, "rain", func(context.Context) error {
		tries++
		return Permanent(errors.New("a desert"))
	})
	require.ErrorContains(t, err, "waiting for rain: gave up after 0s: a desert")
	require.Equal(t, 1, tries)
}

func TestEventuallyTriesAgain(t *testing.T) {
	tries := 0
	require.NoError(t, Eventually(t.Context(), time.Minute, "the second try", func(context.Context) error {
		if tries++; tries < 2 {
			return errors.New("not yet")
		}
		return nil
	}))
}
