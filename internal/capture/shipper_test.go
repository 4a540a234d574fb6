// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// newRing returns both sides of a ring of the least size.
func newRing(t *testing.T) (*ring.Writer, *ring.Reader) {
	t.Helper()
	memory, fd, err := ring.Create(ring.MinCapacity)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	opened, err := ring.Open(fd)
	require.NoError(t, err)
	return memory.Writer(), opened.Reader()
}

// A pipe that waits for room was looked at before.
func TestNewsOfTheShipperThatComeWhileTheLoopIsAtOtherWorkWakeItOnceMore(t *testing.T) {
	w, _ := newRing(t)
	news, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	defer func() { _ = unix.Close(news) }()
	s := &shipperProcess{shared: shared{news: news}, pollExit: func() (bool, int) { return false, 0 }}
	wakes := func() bool {
		fds := s.poll(nil)
		n, err := unix.Poll(fds, 0)
		require.NoError(t, err)
		return n > 0
	}
	ring.Wake(news)
	s.maintain(w)
	require.True(t, wakes())
	s.hearNews()
	require.False(t, wakes())
}
