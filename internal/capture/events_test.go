// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

// The tests of cmd/withlogs/entrypoint have all other events.
func TestAnOOMKillIsAnEvent(t *testing.T) {
	memory, fd, err := ring.Create(ring.DefaultCapacity)
	require.NoError(t, err)
	opened, err := ring.Open(fd)
	require.NoError(t, err)
	c := New()
	c.ring = memory.Writer()
	c.Event(output.EventOOMKilled, "", 2)
	text := make([]byte, 1000)
	n, _ := opened.Reader().Read(ring.Events, 0, text)
	var event map[string]any
	require.NoError(t, json.Unmarshal(text[:n], &event), "%q", text[:n])
	require.NotEmpty(t, event["time"])
	delete(event, "time")
	require.Equal(t, map[string]any{"event": "oomKilled", "processes": 2.0}, event)
}
