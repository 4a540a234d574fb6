// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

func TestAFIFOIsAPipeThatKnowsTheTimeOfTheLastWrite(t *testing.T) {
	directory := t.TempDir()
	ends, err := openFIFO(directory)
	require.NoError(t, err)
	names, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Empty(t, names)
	p := &pipe{read: ends[0]}
	require.False(t, p.hasBytes())
	began := time.Now()
	n, err := unix.Write(ends[1], []byte("line\n"))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.True(t, p.hasBytes())
	const tick = 10 * time.Millisecond
	require.WithinRange(t, p.lastWrite(), began.Add(-tick), time.Now())
	require.NoError(t, unix.Close(ends[1]))
	fds := []unix.PollFd{{Fd: int32(ends[0]), Events: unix.POLLIN}}
	_, err = unix.Poll(fds, 0)
	require.NoError(t, err)
	require.NotZero(t, fds[0].Revents&unix.POLLHUP, "nobody can write any more")
	require.NoError(t, unix.Close(ends[0]))
}

func TestNoFIFOIsOpenedThatAnotherProcessHasAccessTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	require.True(t, isOwnFIFO(fd))
	require.NoError(t, unix.Fchmod(fd, 0o622))
	require.False(t, isOwnFIFO(fd))
	file, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.False(t, isOwnFIFO(int(file.Fd())))
	_, err = openFIFO(path)
	require.ErrorIs(t, err, unix.ENOTDIR)
}

// The kernel keeps no time of writes to pipes without a name from Linux 6.15 on.
func TestBytesInPipesWithoutTimesOfWritesComeNow(t *testing.T) {
	w, r := newRing(t)
	c := &Capture{ring: w}
	var writes [len(ring.Printed)]int
	for _, s := range ring.Printed {
		c.pipes[s], writes[s] = newPipe(t)
		c.pipes[s].stream = s
	}
	time.Sleep(time.Second)
	printed := time.Now()
	for _, write := range writes {
		_, err := unix.Write(write, []byte("x"))
		require.NoError(t, err)
	}
	c.takeAll()
	for _, s := range ring.Printed {
		marks := r.Marks(s, 0, 1)
		require.Len(t, marks, 1)
		require.WithinDuration(t, printed, time.UnixMilli(marks[0].Time), 500*time.Millisecond)
	}
}

// All containers of a pod share /dev/shm.
func TestNoOtherContainerCanOpenThePipes(t *testing.T) {
	device := func(path string) uint64 {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		return st.Dev
	}
	if device("/dev") == device("/dev/shm") {
		t.Skip("they are one file system here")
	}
	ends, err := openEnds()
	require.NoError(t, err)
	for _, end := range ends {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(end, &st))
		require.NotEqual(t, device("/dev/shm"), st.Dev)
		require.NoError(t, unix.Close(end))
	}
}
