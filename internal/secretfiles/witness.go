// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package secretfiles

import (
	"hash/crc64"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/ring"
)

const (
	// maxFormer bounds the contents that a Witness remembers: a masker of more takes long to
	// build.
	maxFormer = 1000
	// settled is the age from which on a further change of a file changes its ctime. Some
	// kernels count it in ticks of 10 ms.
	settled = 20 * time.Millisecond
)

// A Witness remembers what files have contained. The command may print it after they have
// changed.
type Witness struct {
	files    *Files
	snapshot *ring.Snapshot
	watch    await.Watch
	states   map[string]fileState // by name
}

// A fileState is that of a file which was read.
type fileState struct {
	id          fileID
	size        int64
	mtime       time.Time
	ctime       syscall.Timespec
	isSettled   bool
	fingerprint uint64 // of the content
}

// NewWitness returns a Witness that remembers in a snapshot.
func NewWitness(paths []string, snapshot *ring.Snapshot) *Witness {
	var directories []string
	for _, path := range paths {
		directories = append(directories, path, filepath.Dir(path)) // whichever of them is one
	}
	slices.Sort(directories)
	return &Witness{files: New(paths), snapshot: snapshot, watch: await.NewWatch(slices.Compact(directories), true)}
}

// Inspect reads the files that have changed since the last call, and remembers their
// content. The kernel sends SIGCHLD to this process at the next change. After an error,
// the content of a file may be unknown.
func (w *Witness) Inspect() error {
	// The watch comes before the look. Otherwise a change between the two would be missed.
	w.watch.Arm()
	var changed []string
	states, total := map[string]fileState{}, int64(0)
	err := w.files.Each(func(name string) error {
		info, err := w.files.Stat(name)
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return unreadable(name, err)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		total += info.Size()
		if err := checkSize(name, info.Size(), total); err != nil {
			return err
		}
		now := stateOf(info)
		if before := w.states[name]; before.isSettled && now.sameAs(before) {
			states[name] = before
			return nil
		}
		value, err := w.files.Read(name)
		if err != nil && !isAbsent(err) {
			return unreadable(name, err)
		}
		if value != "" {
			changed = append(changed, value)
		}
		now.fingerprint = fingerprint(value)
		states[name] = now
		return checkSize(name, int64(len(value)), total)
	})
	former := w.states
	if err == nil {
		w.states = states
	}
	if saving := w.remember(changed); saving != nil {
		w.states = former // the next call reads the content again
		if err == nil {
			err = saving
		}
	}
	return err
}

// Slow says which file doesn't respond to Inspect.
func (w *Witness) Slow() string { return w.files.Slow() }

func stateOf(info os.FileInfo) fileState {
	s := fileState{size: info.Size(), mtime: info.ModTime()}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		s.id, s.ctime = fileID{stat.Dev, stat.Ino}, stat.Ctim
		s.isSettled = time.Since(time.Unix(stat.Ctim.Unix())).Abs() > settled
	}
	return s
}

func (s fileState) sameAs(t fileState) bool {
	return s.id == t.id && s.size == t.size && s.mtime.Equal(t.mtime) && s.ctime == t.ctime
}

var fingerprints = crc64.MakeTable(crc64.ECMA)

func fingerprint(value string) uint64 { return crc64.Checksum([]byte(value), fingerprints) }

// remember adds contents to the snapshot. Beyond its bounds, it forgets the oldest that no
// file has any more, and then the oldest.
func (w *Witness) remember(values []string) error {
	if len(values) == 0 {
		return nil
	}
	known := DecodeSnapshot(w.snapshot.Load())
	count := len(known)
	for _, value := range values {
		if !slices.Contains(known, value) {
			known = append(known, value)
		}
	}
	if len(known) == count {
		return nil
	}
	size := 0
	for _, value := range known {
		size += len(value)
	}
	count = len(known)
	current := map[uint64]bool{}
	for _, state := range w.states {
		current[state.fingerprint] = true
	}
	known = slices.DeleteFunc(known, func(value string) bool {
		if count <= maxFormer && size <= maxRemembered || current[fingerprint(value)] {
			return false
		}
		count, size = count-1, size-len(value)
		return true
	})
	return w.snapshot.Save(EncodeSnapshot(known))
}

// maxRemembered bounds the remembered contents, in bytes, so that they fit into a snapshot
// together with their lengths.
const maxRemembered = ring.MaxSnapshot - 8*maxFormer
