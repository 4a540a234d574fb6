// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/mask"
	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/secretfiles"
)

const (
	// maxReplaced bounds the replaced secrets that are still masked, in bytes.
	maxReplaced = 1 << 20
	// Files are inspected before each part is sent. The inspection of more than manyFiles
	// takes long, so it happens only once per manyFilesPause.
	manyFiles      = 100
	manyFilesPause = time.Second
	// After a change, whose processing takes time, the files rest for restFactor times as
	// long as the processing took, and at most for longestRest.
	restFactor  = 10
	longestRest = 250 * time.Millisecond
)

// secretSources names the sources of secrets.
type secretSources struct {
	variables []string
	paths     []string // files, and directories of files
}

// secrets builds a masker of all current secrets, and of replaced ones: the command may
// print an old value later.
type secrets struct {
	variables []string // values of environment variables, which never change
	files     *files
	// snapshot has what the supervisor has seen in the files: unsent output may contain a
	// value that the files no longer have. It is nil if the supervisor couldn't create one.
	snapshot        *ring.Snapshot
	snapshotVersion uint64 // of the last addSnapshot

	masker       *mask.Masker
	known        map[string]bool // current and replaced contents of files
	current      []string        // the contents as of the last load
	ordered      []string        // the keys of known, oldest first
	size         int             // bytes of all keys of known
	inspectedAt  time.Time
	inspectPause time.Duration // until the next inspection
	stamp        string        // see secretfiles.Files.Stamp: as of the last load
}

// newSecrets returns the secrets of the variables, and those in the snapshot. The files
// are read by load. While the files can't be masked, onFailure is called with the reason.
func newSecrets(sources secretSources, environ []string, snapshot *ring.Snapshot, onFailure func(reason string)) *secrets {
	s := &secrets{files: newFiles(sources.paths, onFailure), snapshot: snapshot, known: map[string]bool{}}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); slices.Contains(sources.variables, name) {
			s.variables = append(s.variables, value)
		}
	}
	s.addSnapshot()
	return s
}

// addSnapshot adds what the supervisor has seen in the files, and reports whether some of
// it is new. The supervisor writes bytes into the ring after it has seen the secrets that
// they may have.
func (s *secrets) addSnapshot() bool {
	if s.snapshot == nil || len(s.files.Paths) == 0 {
		return false
	}
	version := s.snapshot.Version()
	if version == s.snapshotVersion {
		return false
	}
	s.snapshotVersion = version
	seen := secretfiles.DecodeSnapshot(s.snapshot.Load())
	if !slices.ContainsFunc(seen, func(value string) bool { return !s.known[value] }) {
		return false
	}
	// What the supervisor remembers is forgotten last.
	for _, value := range seen {
		if s.known[value] {
			s.forget(value)
		}
	}
	s.ordered = slices.DeleteFunc(s.ordered, func(value string) bool { return !s.known[value] })
	s.add(seen)
	s.forgetOldest()
	return true
}

func (s *secrets) forget(value string) {
	s.size -= len(value)
	delete(s.known, value)
}

// load reads all files, and reports whether the masker has changed.
func (s *secrets) load() bool {
	s.inspectedAt = time.Now()
	return s.apply(s.files.waitUntilMaskable(""))
}

// apply adds what an inspection has found, and reports whether the masker has changed.
func (s *secrets) apply(l inspection) bool {
	s.stamp, s.current = l.stamp, l.values
	more := s.add(l.values)
	s.forgetOldest()
	if more || s.masker == nil {
		s.buildMasker()
		return true
	}
	return false
}

// add adds contents of files, and reports whether one of them is new.
func (s *secrets) add(values []string) (more bool) {
	for _, value := range values {
		if !s.known[value] {
			s.known[value], more = true, true
			s.ordered, s.size = append(s.ordered, value), s.size+len(value)
		}
	}
	return more
}

// forgetOldest removes replaced secrets, the oldest first, beyond maxReplaced bytes. A
// file that changes all the time would otherwise use up the memory.
func (s *secrets) forgetOldest() {
	current, most := map[string]bool{}, maxReplaced
	for _, value := range s.current {
		if !current[value] {
			current[value] = true
			most += len(value)
		}
	}
	s.ordered = slices.DeleteFunc(s.ordered, func(value string) bool {
		if s.size <= most || current[value] {
			return false
		}
		s.forget(value)
		return true
	})
}

func (s *secrets) buildMasker() {
	var values [][]byte
	for _, value := range slices.Concat(s.variables, s.ordered) {
		values = append(values, []byte(value))
	}
	s.masker = mask.New(mask.Patterns(values))
}

// reload loads what has changed since the last inspection, and reports whether the masker
// has changed.
func (s *secrets) reload() bool {
	if len(s.files.Paths) == 0 {
		return false
	}
	changed := s.reloadFiles()
	if s.addSnapshot() { // after the files, which may have kept the shipper waiting
		s.buildMasker()
		changed = true
	}
	return changed
}

// reloadFiles is load if the files have changed since the last inspection.
func (s *secrets) reloadFiles() bool {
	if time.Since(s.inspectedAt) < s.inspectPause {
		return false
	}
	began := time.Now()
	l := s.files.waitUntilMaskable(s.stamp)
	changed := l.stamp != s.stamp && s.apply(l)
	s.inspectedAt, s.inspectPause = time.Now(), 0
	if changed {
		s.inspectPause = min(restFactor*s.inspectedAt.Sub(began), longestRest)
	}
	if l.count > manyFiles {
		s.inspectPause = manyFilesPause
	}
	return changed
}
