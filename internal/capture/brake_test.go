// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/ring"
)

func TestAServiceThatIsDownStopsTheCommandOncePerOutage(t *testing.T) {
	memory, fd, err := ring.Create(ring.MinCapacity)
	require.NoError(t, err)
	opened, err := ring.Open(fd)
	require.NoError(t, err)
	w, service := memory.Writer(), opened.Reader()
	w.Write(ring.Stdout, make([]byte, 1000))
	now := time.Now()
	b := brake{bound: 10 * time.Second}
	look := func(at time.Time) time.Duration {
		b.look(w)
		return b.left(at)
	}

	require.Equal(t, 10*time.Second, look(now))
	require.Equal(t, 3*time.Second, look(now.Add(7*time.Second)))
	service.SaveProgress(ring.Stdout, ring.Progress{At: 1})
	require.Equal(t, 10*time.Second, look(now.Add(9*time.Second)), "a slow service may slow the command down for as long as it takes bytes")
	require.Equal(t, time.Second, look(now.Add(18*time.Second)))
	require.Zero(t, look(now.Add(19*time.Second)))
	require.Zero(t, look(now.Add(time.Hour)), "the outage goes on")
	service.SaveProgress(ring.Stdout, ring.Progress{At: 2})
	require.Equal(t, 10*time.Second, look(now.Add(2*time.Hour)), "it is over")

	never := brake{}
	require.Zero(t, never.left(now))
}
