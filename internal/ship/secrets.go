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
	// maxKnown is how much is kept of secrets that were replaced, in bytes.
	maxKnown = 1 << 20
	// Files are looked at whenever something is about to be sent; where they are more
	// than few, once in a while. When they have changed, which takes time, they are left
	// alone for share times as long, though not for longer than changing.
	few      = 100
	while    = time.Second
	share    = 10
	changing = linger
)

// secretSources is where secrets are.
type secretSources struct {
	variables []string
	paths     []string // of files, and of directories of files
}

// secrets are what is masked, also what was a secret once: it may be printed later.
type secrets struct {
	variables []string // their values, which stay
	files     *files
	// former has what files had, for the shipper that replaces this one: what isn't sent
	// yet may have it. Without, it is nil.
	former *ring.Snapshot

	masker *mask.Masker
	known  map[string]bool // of files
	order  []string        // they, as they came
	size   int             // of all of them, in bytes
	looked time.Time
	pause  time.Duration // until the next look
	stamp  string        // of them, when they were read
}

// newSecrets knows the variables, and what files had of which the shipper before has
// known. It tells why nothing can be sent while the files can't be masked.
func newSecrets(sources secretSources, environ []string, former *ring.Snapshot, tell func(why string)) *secrets {
	s := &secrets{files: newFiles(sources.paths, tell), former: former, known: map[string]bool{}}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); slices.Contains(sources.variables, name) {
			s.variables = append(s.variables, value)
		}
	}
	if former != nil && len(sources.paths) > 0 {
		s.learn(decodeFormer(former.Load()))
	}
	return s
}

// read reads the secrets that there are, and reports whether some are new.
func (s *secrets) read() bool {
	s.looked = time.Now()
	return s.take(s.files.look(""))
}

func (s *secrets) take(l look) bool {
	s.stamp = l.stamp
	more := s.learn(l.values)
	s.forget(l.values)
	if more {
		s.keep()
	}
	if more || s.masker == nil {
		s.mask()
		return true
	}
	return false
}

// learn takes in what files have, and reports whether some of it is new.
func (s *secrets) learn(values []string) (more bool) {
	for _, value := range values {
		if !s.known[value] {
			s.known[value], more = true, true
			s.order, s.size = append(s.order, value), s.size+len(value)
		}
	}
	return more
}

// forget leaves out former secrets, the oldest first, if there are too many: a file that
// changes all the time isn't kept in all of its forms.
func (s *secrets) forget(now []string) {
	current, most := map[string]bool{}, maxKnown
	for _, value := range now {
		if !current[value] {
			current[value] = true
			most += len(value)
		}
	}
	s.order = slices.DeleteFunc(s.order, func(value string) bool {
		if s.size <= most || current[value] {
			return false
		}
		s.size -= len(value)
		delete(s.known, value)
		return true
	})
}

// keep leaves what is known to the shipper that may replace this one. Where that fails,
// the next one knows what files have then.
func (s *secrets) keep() {
	if s.former != nil {
		_ = s.former.Keep(encodeFormer(s.order))
	}
}

func (s *secrets) mask() {
	var values [][]byte
	for _, value := range slices.Concat(s.variables, s.order) {
		values = append(values, []byte(value))
	}
	s.masker = mask.New(mask.Words(values))
}

// renew is read, if files have changed since the last time.
func (s *secrets) renew() bool {
	if len(s.files.paths) == 0 || time.Since(s.looked) < s.pause {
		return false
	}
	began := time.Now()
	l := s.files.look(s.stamp)
	changed := l.stamp != s.stamp && s.take(l)
	s.looked, s.pause = time.Now(), 0
	if changed {
		s.pause = min(share*s.looked.Sub(began), changing)
	}
	if l.count > few {
		s.pause = while
	}
	return changed
}
