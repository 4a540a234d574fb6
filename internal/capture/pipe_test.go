// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// newPipe returns a pipe, and its writable end.
func newPipe(t *testing.T) (p *pipe, write int) {
	t.Helper()
	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
	p = &pipe{stream: ring.Stdout, read: ends[0], tee: -1}
	p.created = p.lastWrite()
	return p, ends[1]
}

// atEnd is markEnd without what concerns the process's own descriptors.
func (p *pipe) atEnd(w *ring.Writer) { p.ending, p.end = true, w.Written(p.stream)+p.held() }

// A command can enlarge its pipe by F_SETPIPE_SZ.
func TestTheEndOfACommandWhosePipeHoldsMoreThanTheRingLosesNothing(t *testing.T) {
	const size = 1 << 20
	w, service := newRing(t)
	p, write := newPipe(t)
	_, err := unix.FcntlInt(uintptr(write), unix.F_SETPIPE_SZ, size)
	require.NoError(t, err)
	n, err := unix.Write(write, make([]byte, size))
	require.NoError(t, err)
	require.Equal(t, size, n)
	p.atEnd(w)
	b := &brake{bound: time.Hour}
	for range 2 * size / ring.MinCapacity {
		p.take(w, b)
		service.SaveProgress(ring.Stdout, ring.Progress{At: w.Written(ring.Stdout)})
		service.NoteRead(ring.Stdout, w.Written(ring.Stdout))
	}
	require.True(t, p.ended)
	require.EqualValues(t, size, w.Written(ring.Stdout))
	require.Zero(t, w.Lost(ring.Stdout))
}

func TestAProcessThatPrintsAfterTheEndOverwritesNothing(t *testing.T) {
	w, _ := newRing(t)
	p, write := newPipe(t)
	w.Write(ring.Stdout, make([]byte, ring.MinCapacity-10))
	_, err := unix.Write(write, []byte("x"))
	require.NoError(t, err)
	p.atEnd(w)
	_, err = unix.Write(write, make([]byte, 1000))
	require.NoError(t, err)
	p.take(w, &brake{bound: time.Hour})
	require.True(t, p.blocked)
	require.Zero(t, w.Lost(ring.Stdout))
}
