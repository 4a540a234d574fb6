// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

func TestALongWaitIsMentionedThreeTimes(t *testing.T) {
	unmet := []order.Unmet{
		{Dependency: order.Dependency{Condition: conditions.Ready, Dir: "/o/db"}, Seen: "the command has started"},
		{Dependency: order.Dependency{Condition: conditions.Exited, Dir: "/o/a"}, Seen: "the container has not started yet"},
	}
	var p WaitLog
	said := map[time.Duration][]string{}
	for waited := time.Duration(0); waited < time.Hour; waited += 500 * time.Millisecond {
		if lines := p.DueLines(waited, unmet); lines != nil {
			said[waited] = lines
		}
	}
	const who = "waiting for db:ready (the command has started), a:exited (the container has not started yet) for "
	require.Equal(t, map[time.Duration][]string{
		10 * time.Second: {who + "10s now"}, time.Minute: {who + "1m0s now"}, 10 * time.Minute: {who + "10m0s now"},
	}, said)

	// After a suspension, only the latest reminder is printed.
	p = WaitLog{}
	require.Equal(t, []string{who + "1m0s now"}, p.DueLines(5*time.Minute, unmet))
}

func TestAProblemIsPrintedOnce(t *testing.T) {
	unmet := []order.Unmet{{Dependency: order.Dependency{Condition: conditions.Ready, Dir: "/o/db"}, Seen: "its lock can't be read: file too large", Problem: true}}
	var p WaitLog
	require.Equal(t, []string{`waiting for db:ready: its lock can't be read: file too large: if this lasts, delete the pod`}, p.DueLines(0, unmet))
	require.Empty(t, p.DueLines(time.Second, unmet))
}
