// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheBarsOfAChartAreOnItsAxis checks the places of bars, and that each lane tells what
// its bars tell.
func TestTheBarsOfAChartAreOnItsAxis(t *testing.T) {
	t.Parallel()
	for named, w := range map[string]*world{"taskrun/build": threeSteps(true).recordThree(), "deployment/web": ordered()} {
		told, err := w.asks(t, named)
		require.NoError(t, err)
		bars := 0
		for _, axis := range told.Chart().Axes {
			require.Zero(t, axis.Ticks[0].At)
			for _, p := range axis.Pods {
				for _, lane := range p.Lanes {
					last := 0.0
					for _, b := range lane.Bars {
						bars++
						require.True(t, last <= b.From && b.From <= b.To && b.To <= 1, "%s: %v after %v", lane.Label, b, last)
						require.Contains(t, lane.Says, b.Word+" ")
						last = b.To
					}
				}
			}
		}
		require.Greater(t, bars, 5)
	}
}

func TestWhatRunsGoesOn(t *testing.T) {
	t.Parallel()
	for named, w := range map[string]*world{"taskrun/build": threeSteps(true).recordThree(), "deployment/web": ordered()} {
		told, err := w.asks(t, named)
		require.NoError(t, err)
		require.Equal(t, named == "deployment/web", told.GoesOn(), named)
	}
}

func TestTheStepThatFailedIsMarked(t *testing.T) {
	t.Parallel()
	told, err := threeSteps(true).recordThree().asks(t, "taskrun/build")
	require.NoError(t, err)
	failed := map[string]bool{}
	for _, lane := range told.Chart().Axes[0].Pods[0].Lanes {
		failed[lane.Label] = lane.Failed
	}
	require.Equal(t, map[string]bool{"(pod)": false, "step-fetch": false, "step-test": false, "step-push": true}, failed)
}
