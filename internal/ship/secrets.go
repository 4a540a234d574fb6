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
	longestRest = linger
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
	// snapshot passes the content of files to the shipper that replaces this one: unsent
	// output may contain a value that the files no longer have. It is nil if the supervisor
	// couldn't create one.
	snapshot *ring.Snapshot

	masker       *mask.Masker
	known        map[string]bool // current and replaced contents of files
	ordered      []string        // the keys of known, oldest first
	size         int             // bytes of all keys of known
	inspectedAt  time.Time
	inspectPause time.Duration // until the next inspection
	stamp        string        // see files.stamp: as of the last load
}

// newSecrets returns the secrets of the variables, and those that the former shipper has
// left in the snapshot. The files are read by load. While the files can't be masked,
// onFailure is called with the reason.
func newSecrets(sources secretSources, environ []string, snapshot *ring.Snapshot, onFailure func(reason string)) *secrets {
	s := &secrets{files: newFiles(sources.paths, onFailure), snapshot: snapshot, known: map[string]bool{}}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); slices.Contains(sources.variables, name) {
			s.variables = append(s.variables, value)
		}
	}
	if snapshot != nil && len(sources.paths) > 0 {
		s.add(decodeSnapshot(snapshot.Load()))
	}
	return s
}

// load reads all files, and reports whether the masker has changed.
func (s *secrets) load() bool {
	s.inspectedAt = time.Now()
	return s.apply(s.files.waitUntilMaskable(""))
}

// apply adds what an inspection has found, and reports whether the masker has changed.
func (s *secrets) apply(l inspection) bool {
	s.stamp = l.stamp
	more := s.add(l.values)
	s.forgetOldest(l.values)
	if more {
		s.saveSnapshot()
	}
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
func (s *secrets) forgetOldest(now []string) {
	current, most := map[string]bool{}, maxReplaced
	for _, value := range now {
		if !current[value] {
			current[value] = true
			most += len(value)
		}
	}
	s.ordered = slices.DeleteFunc(s.ordered, func(value string) bool {
		if s.size <= most || current[value] {
			return false
		}
		s.size -= len(value)
		delete(s.known, value)
		return true
	})
}

// saveSnapshot leaves the known secrets to the shipper that may replace this one. After a
// failure, that shipper knows only what the files contain then.
func (s *secrets) saveSnapshot() {
	if s.snapshot != nil {
		_ = s.snapshot.Save(encodeSnapshot(s.ordered))
	}
}

func (s *secrets) buildMasker() {
	var values [][]byte
	for _, value := range slices.Concat(s.variables, s.ordered) {
		values = append(values, []byte(value))
	}
	s.masker = mask.New(mask.Patterns(values))
}

// reload is load if the files have changed since the last inspection.
func (s *secrets) reload() bool {
	if len(s.files.paths) == 0 || time.Since(s.inspectedAt) < s.inspectPause {
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
