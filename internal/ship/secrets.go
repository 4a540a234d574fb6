// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/mask"
)

const (
	// maxSecret is how much of a file is read, in bytes: what a Secret can hold.
	maxSecret = 1 << 20
	// maxKnown is how much is kept of secrets that were replaced, together with those
	// that there are, in bytes.
	maxKnown = 1 << 20
	// maxFiles is how many files of a directory are read, those counted that are
	// directories, and maxDepth how deep they may be.
	maxFiles = 1000
	maxDepth = 8
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
	sources secretSources
	environ []string

	masker *mask.Masker
	known  map[string]bool
	order  []string // they, as they came
	size   int      // of all of them, in bytes
	looked time.Time
	pause  time.Duration // until the next look
	files  int           // how many there were then
	stamp  string        // of them, when they were read
}

// read reads the secrets that there are, and reports whether some are new.
func (s *secrets) read() bool {
	s.looked, s.stamp = time.Now(), s.stampNow()
	more := s.masker == nil
	if s.known == nil {
		s.known = map[string]bool{}
	}
	now := s.values()
	for _, value := range now {
		if !s.known[value] {
			s.known[value], more = true, true
			s.order, s.size = append(s.order, value), s.size+len(value)
		}
	}
	s.forget(now)
	if more {
		values := make([][]byte, 0, len(s.known))
		for value := range s.known {
			values = append(values, []byte(value))
		}
		s.masker = mask.New(mask.Words(values))
	}
	return more
}

// forget leaves out former secrets, the oldest first, if there are too many: a file that
// changes all the time isn't kept in all of its forms.
func (s *secrets) forget(now []string) {
	if s.size <= maxKnown {
		return
	}
	current := map[string]bool{}
	for _, value := range now {
		current[value] = true
	}
	s.order = slices.DeleteFunc(s.order, func(value string) bool {
		if s.size <= maxKnown || current[value] {
			return false
		}
		s.size -= len(value)
		delete(s.known, value)
		return true
	})
}

// renew is read, if files have changed since the last time.
func (s *secrets) renew() bool {
	if len(s.sources.paths) == 0 || time.Since(s.looked) < s.pause {
		return false
	}
	began := time.Now()
	changed := s.stampNow() != s.stamp && s.read()
	s.looked, s.pause = time.Now(), 0
	if changed {
		s.pause = min(share*s.looked.Sub(began), changing)
	}
	if s.files > few {
		s.pause = while
	}
	return changed
}

// stampNow changes when files do: the kubelet has links lead to other files, and
// others write to the file, or put another one in its place.
func (s *secrets) stampNow() string {
	var stamp []byte
	s.files = 0
	for _, path := range s.sources.paths {
		for _, name := range filesIn(path) {
			s.files++
			if info, err := os.Stat(name); err == nil {
				stamp = fmt.Appendf(stamp, "%s %d %d,", name, info.Size(), info.ModTime().UnixNano())
				if stat, is := info.Sys().(*syscall.Stat_t); is {
					// A program may give a file the time that it had (touch).
					stamp = fmt.Appendf(stamp, "%d %d %d ", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
				}
			}
		}
	}
	return string(stamp)
}

func (s *secrets) values() (values []string) {
	for _, kv := range s.environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, variable := range s.sources.variables {
			if name == variable {
				values = append(values, value)
			}
		}
	}
	for _, path := range s.sources.paths {
		for _, name := range filesIn(path) {
			if value := readSecret(name); value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

// filesIn are the files of a directory and of those in it, or the file itself.
func filesIn(path string) (names []string) {
	left := maxFiles
	var add func(path string, depth int)
	add = func(path string, depth int) {
		if left--; left < 0 {
			return
		}
		entries, err := entriesOf(path)
		if err != nil {
			names = append(names, path)
			return
		}
		for _, entry := range entries {
			// The kubelet's own begin with two dots. Others are links to what is in them.
			if depth > 0 && !strings.HasPrefix(entry.Name(), "..") {
				add(filepath.Join(path, entry.Name()), depth-1)
			}
		}
	}
	add(path, maxDepth)
	return names
}

// entriesOf are those of a directory, no more than are read.
func entriesOf(path string) ([]os.DirEntry, error) {
	directory, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = directory.Close() }()
	entries, err := directory.ReadDir(maxFiles)
	if errors.Is(err, io.EOF) { // there are none
		err = nil
	}
	return entries, err
}

// readSecret is what a file has, "" if it can't be read: the command can't either.
func readSecret(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	value, err := io.ReadAll(io.LimitReader(file, maxSecret))
	if err != nil {
		return ""
	}
	return string(value)
}
