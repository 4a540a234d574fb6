// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/check"
)

func TestTheExitCodeOfACheck(t *testing.T) {
	t.Parallel()
	with := func(installed *bool, states ...check.State) *check.Report {
		r := &check.Report{Installed: installed}
		for _, state := range states {
			r.Checks = append(r.Checks, check.Result{State: state})
		}
		return r
	}
	for _, test := range []struct {
		report       *check.Report
		needsInstall bool
		want         int
	}{
		{with(new(true), check.Passed, check.Warning, check.Skipped), false, 0},
		{with(new(true), check.Unknown, check.Failed), false, exitFinding},
		{with(new(true), check.Unknown, check.Passed), false, exitFailure},
		{with(new(false), check.Passed), false, 0},
		{with(new(false), check.Passed), true, exitFinding},
		{with(nil, check.Unknown), true, exitFailure},
	} {
		require.Equal(t, test.want, exitCode(checkVerdict(test.report, test.needsInstall)), "%+v", test)
	}
}

// Waiting ends when nothing fails, and entrypointer is there.
func TestACheckWaitsForTheInstall(t *testing.T) {
	t.Parallel()
	runs := 0
	run := func(context.Context) (*check.Report, error) {
		runs++
		return &check.Report{Installed: new(runs > 1)}, nil
	}
	report, err := checkUntil(t.Context(), time.Now().Add(time.Minute), true, run)
	require.NoError(t, err)
	require.True(t, *report.Installed)
	require.Equal(t, 2, runs)
	report, err = checkUntil(t.Context(), time.Now(), true, func(context.Context) (*check.Report, error) { return &check.Report{Installed: new(false)}, nil })
	require.NoError(t, err)
	require.False(t, *report.Installed, "it gives up")
}
