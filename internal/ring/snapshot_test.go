// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func snapshot(t testing.TB) *Snapshot {
	t.Helper()
	fd, err := CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	s, err := OpenSnapshot(fd)
	require.NoError(t, err)
	return s
}

// taken returns the memory of a snapshot, in bytes.
func taken(t *testing.T, s *Snapshot) int64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(s.fd, &st))
	return st.Blocks * 512
}

func TestASnapshotHasTheBytesThatWereSavedLast(t *testing.T) {
	s := snapshot(t)
	require.Nil(t, s.Load())
	require.Zero(t, taken(t, s), "an empty snapshot takes no memory")
	for _, data := range []string{"one", strings.Repeat("another ", MaxSnapshot/8), "a third", "", "a fourth"} {
		require.NoError(t, s.Save([]byte(data)))
		require.Equal(t, data, string(s.Load()))
	}
	require.LessOrEqual(t, taken(t, s), int64(2*headerSize), "what doesn't count any more takes no memory")
	require.ErrorContains(t, s.Save(make([]byte, MaxSnapshot+1)), "1310721 bytes")
	require.Equal(t, "a fourth", string(s.Load()))
}

func TestASnapshotCannotBeShortened(t *testing.T) {
	s := snapshot(t)
	require.ErrorIs(t, unix.Ftruncate(s.fd, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(s.fd, 2*snapshotSize), unix.EPERM)
}

func TestOtherFilesAreNotOpenedAsASnapshot(t *testing.T) {
	_, _, fd := open(t)
	_, err := OpenSnapshot(fd)
	require.ErrorContains(t, err, "bytes, not")
	_, err = OpenSnapshot(-1)
	require.ErrorContains(t, err, "bad file descriptor")
}

// keeper is set in the environment of a process that does nothing but save snapshots.
const keeper = "RING_TEST_KEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(keeper) != "" {
		s, err := OpenSnapshot(3)
		for n := 1; err == nil; n++ {
			err = s.Save(bytes.Repeat([]byte{byte(n)}, 1+n*7919%MaxSnapshot))
		}
		panic(err)
	}
	os.Exit(m.Run())
}

func TestAProcessThatIsKilledWhileItSavesLeavesAWholeSnapshot(t *testing.T) {
	s := snapshot(t)
	require.NoError(t, s.Save([]byte{0}))
	for n := range 30 {
		fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 3)
		require.NoError(t, err)
		file := os.NewFile(uintptr(fd), "snapshot")
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), keeper+"=1"), []*os.File{file}
		require.NoError(t, cmd.Start())
		before := s.word()
		require.Eventually(t, func() bool { return s.word() != before }, 30*time.Second, time.Millisecond)
		time.Sleep(time.Duration(n) * 171 * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
		require.NoError(t, file.Close())
		data := s.Load()
		require.NotEmpty(t, data)
		require.Equal(t, len(data), bytes.Count(data, data[:1]))
	}
}

// Whatever is written into the file, Load returns a saved snapshot or nothing.
func FuzzASnapshotThatSomebodyWritesInto(f *testing.F) {
	f.Add(uint64(0), []byte("kept"), []byte("x"), uint32(headerSize))
	f.Add(uint64(1<<63|1<<22), []byte("kept"), []byte{}, uint32(0))
	f.Add(^uint64(0), []byte("kept"), []byte{}, uint32(0))
	s := snapshot(f)
	f.Fuzz(func(t *testing.T, word uint64, data, noise []byte, at uint32) {
		require.NoError(t, s.Save(data))
		if word != 0 {
			require.NoError(t, s.write(binary.NativeEndian.AppendUint64(nil, word), 0))
		}
		_, err := unix.Pwrite(s.fd, noise, int64(at%snapshotSize))
		if at%snapshotSize+uint32(len(noise)) < snapshotSize {
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(s.Load()), MaxSnapshot)
		require.NoError(t, s.Save(data))
		require.Equal(t, string(data), string(s.Load()))
	})
}
