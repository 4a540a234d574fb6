// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// open returns both sides of a new ring, each with a mapping of its own.
func open(t *testing.T) (*Writer, *Reader, int) {
	t.Helper()
	created, fd, err := Create(DefaultCapacity)
	require.NoError(t, err)
	opened, err := Open(fd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, unix.Munmap(created.memory))
		require.NoError(t, unix.Munmap(opened.memory))
		require.NoError(t, unix.Close(fd))
	})
	return created.Writer(), opened.Reader(), fd
}

// pattern returns bytes of a stream whose values depend on their offsets.
func pattern(from, count int64) []byte {
	data := make([]byte, count)
	for i := range data {
		data[i] = byte((from + int64(i)) % 251)
	}
	return data
}

func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { _ = unix.Close(ends[0]); _ = unix.Close(ends[1]) })
	return ends[0], ends[1]
}

func TestTheHeaderFitsItsPage(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(header{}), uintptr(headerSize))
	require.Zero(t, unsafe.Offsetof(header{}.streams)%8, "64-bit words are accessed atomically")
}

func TestBytesFromAPipeArriveInTheOtherProcess(t *testing.T) {
	w, r, _ := open(t)
	read, write := pipe(t)
	n, err := w.ReadFrom(Stderr, read)
	require.NoError(t, err)
	require.Zero(t, n, "the pipe is empty")
	var at int64
	for _, count := range []int64{1, 4096, 60_000, 1, 65_536, 33} {
		data := pattern(at, count)
		_, err := unix.Write(write, data)
		require.NoError(t, err)
		n, err := w.ReadFrom(Stderr, read)
		require.NoError(t, err)
		require.EqualValues(t, count, n)
		into := make([]byte, DefaultCapacity)
		n, floor := r.Read(Stderr, at, into)
		require.Equal(t, at, floor)
		require.Equal(t, data, into[:n])
		require.Equal(t, data, bytes.Join([][]byte{w.Peek(Stderr, at, DefaultCapacity)}, nil))
		at += count
	}
	written, ended := r.Written(Stderr)
	require.Equal(t, at, written)
	require.False(t, ended)
	written, _ = r.Written(Stdout)
	require.Zero(t, written)
	w.End(Stderr)
	_, ended = r.Written(Stderr)
	require.True(t, ended)
}

func TestTheOldestBytesAreOverwrittenAndTheReaderLearnsWhereToContinue(t *testing.T) {
	w, r, _ := open(t)
	var at int64
	for at < 3*DefaultCapacity {
		w.Write(Stdout, pattern(at, 100_003))
		at += 100_003
	}
	n, floor := r.Read(Stdout, 0, make([]byte, 10))
	require.Zero(t, n)
	require.Equal(t, at-DefaultCapacity, floor)
	into := make([]byte, 2*DefaultCapacity)
	n, from := r.Read(Stdout, floor, into)
	require.Equal(t, floor, from)
	require.Equal(t, DefaultCapacity, n)
	require.Equal(t, pattern(floor, DefaultCapacity), into[:n])
}

func TestAReaderThatIsOvertakenNeverGetsBytesOfAnotherPlace(t *testing.T) {
	w, r, _ := open(t)
	const total = 64 << 20
	go func() {
		for at := int64(0); at < total; at += 40_009 {
			w.Write(Stdout, pattern(at, 40_009))
		}
		w.End(Stdout)
	}()
	into := make([]byte, 200_000)
	var at, lost int64
	for {
		_, ended := r.Written(Stdout)
		n, floor := r.Read(Stdout, at, into)
		if floor > at {
			lost += floor - at
			at = floor
			continue
		}
		if want := pattern(at, int64(n)); !bytes.Equal(want, into[:n]) {
			t.Fatalf("bytes %d to %d are others", at, at+int64(n))
		}
		at += int64(n)
		if written, _ := r.Written(Stdout); ended && at == written {
			break
		}
	}
	require.GreaterOrEqual(t, at, int64(total))
	t.Logf("lost %d of %d bytes", lost, at)
}

func TestAReaderThatDiesLeavesItsProgressToTheNext(t *testing.T) {
	w, r, fd := open(t)
	require.Equal(t, Progress{}, r.Progress(Stdout))
	w.Write(Stdout, []byte("ab"))
	for at := range int64(3) {
		r.SaveProgress(Stdout, Progress{At: at, MaskedUntil: at + 1, AfterGap: 1, Dropped: at})
	}
	next, err := Open(fd)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(next.memory)) }()
	want := Progress{At: 2, MaskedUntil: 3, AfterGap: 1, Dropped: 2}
	require.Equal(t, want, next.Reader().Progress(Stdout))
	require.Equal(t, Progress{}, next.Reader().Progress(Stderr))
	done, complete := w.ReaderProgress(Stdout)
	require.Equal(t, want, done)
	require.False(t, complete)
	r.MarkComplete(Stdout)
	require.True(t, next.Reader().IsComplete(Stdout))
	_, complete = w.ReaderProgress(Stdout)
	require.False(t, complete, "the stream has not ended")
	w.End(Stdout)
	_, complete = w.ReaderProgress(Stdout)
	require.True(t, complete)
}

func TestTheWriterBoundsImpossibleProgress(t *testing.T) {
	w, r, _ := open(t)
	w.Write(Stdout, []byte("0123456789"))
	w.End(Stdout)
	r.MarkComplete(Stdout)
	for _, test := range []struct{ said, want Progress }{
		{Progress{At: -5, Dropped: -7}, Progress{}},
		{Progress{At: 1 << 62, Dropped: 1 << 61}, Progress{At: 10, Dropped: 10}},
		{Progress{At: 4, Dropped: 5}, Progress{At: 4, Dropped: 4}},
	} {
		r.SaveProgress(Stdout, test.said)
		got, complete := w.ReaderProgress(Stdout)
		require.Equal(t, test.want, got)
		require.Equal(t, got.At == 10, complete, "not before all is there")
	}
}

func TestPacketsAreReadWhole(t *testing.T) {
	w, r, _ := open(t)
	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_DIRECT))
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	for at := int64(0); at < 2*DefaultCapacity; at += 1000 { // which doesn't divide the capacity
		_, err := unix.Write(ends[1], pattern(at, 1000))
		require.NoError(t, err)
		n, err := w.ReadFrom(Stdout, ends[0])
		require.NoError(t, err)
		require.Equal(t, 1000, n)
		into := make([]byte, 2000)
		n, _ = r.Read(Stdout, at, into)
		require.Equal(t, pattern(at, 1000), into[:n])
	}
}

func TestAFailureReachesTheWriter(t *testing.T) {
	w, r, _ := open(t)
	require.Empty(t, w.Failure())
	r.SetFailure("no such host")
	require.Equal(t, "no such host", w.Failure())
	r.SetFailure(string(bytes.Repeat([]byte("x"), 5000)))
	require.Len(t, w.Failure(), maxFailure)
	r.SetFailure("")
	require.Empty(t, w.Failure())
}

func TestASleepingReaderIsWokenOnceAStreamReachesItsThreshold(t *testing.T) {
	w, r, _ := open(t)
	require.False(t, w.ClaimWake())
	r.WakeAt(Stdout, 3)
	r.WakeAt(Stderr, 1)
	r.WakeAt(Events, 1)
	r.Sleep()
	require.False(t, w.ClaimWake())
	w.Write(Stdout, []byte("ab"))
	require.False(t, w.ClaimWake())
	w.Write(Stdout, []byte("c"))
	require.True(t, w.ClaimWake())
	require.False(t, w.ClaimWake())
	r.Sleep()
	r.Awake()
	require.False(t, w.ClaimWake())
	r.WakeAt(Stdout, 100)
	r.Sleep()
	w.End(Stdout)
	require.True(t, w.ClaimWake(), "no more will come")
}

func TestNobodyCanChangeTheSize(t *testing.T) {
	_, _, fd := open(t)
	require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fd, 1<<30), unix.EPERM)
}

func TestOtherFilesAreNotOpenedAsARing(t *testing.T) {
	_, err := Open(-1)
	require.ErrorContains(t, err, "bad file descriptor")
	read, _ := pipe(t)
	_, err = Open(read)
	require.ErrorContains(t, err, "has 0 bytes")
	empty, err := unix.MemfdCreate("test", 0)
	require.NoError(t, err)
	defer unix.Close(empty)
	require.NoError(t, unix.Ftruncate(empty, int64(fixedSize+len(Printed)*DefaultCapacity)))
	_, err = Open(empty)
	require.ErrorContains(t, err, "isn't a ring of this version")
}

func TestAWriterThatWaitsForRoomOverwritesNothingThatTheServiceLacks(t *testing.T) {
	w, r, _ := open(t)
	w.Write(Stdout, pattern(0, DefaultCapacity-10))
	require.EqualValues(t, 10, w.Room(Stdout))
	require.EqualValues(t, DefaultCapacity, w.Room(Stderr))
	require.False(t, r.ClaimWake(), "the writer doesn't wait")
	w.AwaitProgress()
	r.SaveProgress(Stdout, Progress{At: 100})
	require.True(t, r.ClaimWake())
	require.False(t, r.ClaimWake())
	require.EqualValues(t, 110, w.Room(Stdout))
	w.Write(Stdout, pattern(DefaultCapacity-10, 110))
	require.Zero(t, w.Room(Stdout))
	n, floor := r.Read(Stdout, 100, make([]byte, DefaultCapacity))
	require.Equal(t, DefaultCapacity, n)
	require.EqualValues(t, 100, floor)
}

func TestTheWriterCountsTheBytesThatNobodyHasRead(t *testing.T) {
	w, r, _ := open(t)
	w.Write(Stdout, pattern(0, DefaultCapacity))
	r.NoteRead(Stdout, 1000)
	w.Write(Stdout, pattern(0, 1000))
	require.Zero(t, w.Lost(Stdout))
	w.Write(Stdout, pattern(0, 500))
	require.EqualValues(t, 500, w.Lost(Stdout))
	r.NoteRead(Stdout, 3000)
	w.Write(Stdout, pattern(0, 2000))
	require.EqualValues(t, 1000, w.Lost(Stdout))
	require.Zero(t, w.Lost(Stderr))
}

func TestARingHasTheCapacityThatItsCreatorAsksFor(t *testing.T) {
	for _, asked := range []int64{MinCapacity, 300_000, MaxCapacity} {
		created, fd, err := Create(asked)
		require.NoError(t, err)
		opened, err := Open(fd)
		require.NoError(t, err)
		require.GreaterOrEqual(t, opened.Capacity(Stdout), asked)
		require.Less(t, opened.Capacity(Stdout), asked+headerSize)
		w, r := created.Writer(), opened.Reader()
		for _, s := range Streams {
			data := pattern(int64(s), opened.Capacity(s))
			w.Write(s, data)
			w.Write(s, data[:1])
			into := make([]byte, len(data))
			n, _ := r.Read(s, 1, into)
			require.Equal(t, len(data), n)
			require.Equal(t, append(data[1:], data[0]), into)
		}
		require.NoError(t, unix.Munmap(created.memory))
		require.NoError(t, unix.Munmap(opened.memory))
		require.NoError(t, unix.Close(fd))
	}
}

func TestBytesThatTheReaderHasMakeRoomIfItWantsMore(t *testing.T) {
	w, r, _ := open(t)
	w.Write(Stdout, make([]byte, 1000))
	r.NoteRead(Stdout, 600)
	require.EqualValues(t, DefaultCapacity-1000, w.Room(Stdout))
	r.WantMore(Stdout, true)
	require.EqualValues(t, DefaultCapacity-400, w.Room(Stdout))
	r.NoteRead(Stdout, 1<<40)
	require.EqualValues(t, DefaultCapacity, w.Room(Stdout), "the command can write into the ring")
	r.WantMore(Stdout, false)
	require.EqualValues(t, DefaultCapacity-1000, w.Room(Stdout))
}
