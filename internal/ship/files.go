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
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxSecret is how much of a file is read, in bytes: what a Secret can hold.
	maxSecret = 1 << 20
	// maxFiles is how many files of a directory are read, those counted that are
	// directories, and maxDepth how deep they may be.
	maxFiles = 1000
	maxDepth = 8
	// patience is how long a file may take before somebody is told.
	patience = 2 * time.Second
	// leased is how long to wait between tries to open a file that somebody else has a
	// lease of (fcntl(2), F_SETLEASE): the kernel ends that within 45 s.
	leased = 10 * time.Millisecond
)

// files are those whose content is masked.
type files struct {
	paths []string // of them, and of directories of files
	// hang is told of a file that doesn't answer, because the server of its volume is
	// gone for instance. Nothing is sent until it does: it may have a secret.
	hang func(name string)

	read func(name string) string
	at   atomic.Pointer[string] // the file that is being looked at
}

func newFiles(paths []string, hang func(name string)) *files {
	return &files{paths: paths, hang: hang, read: readSecret}
}

// A look is what was found of the files.
type look struct {
	stamp  string // see files.stamp
	count  int
	values []string // what they have, if their stamp isn't the one before
}

// look returns when all files have answered.
func (f *files) look(before string) (l look) {
	if len(f.paths) == 0 {
		return l
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.stamp, l.count = f.stamp(); l.stamp != before {
			l.values = f.values()
		}
	}()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return l
		case <-tick.C:
			if name := f.at.Load(); name != nil {
				f.hang(*name)
			}
		}
	}
}

// stamp changes when files do: the kubelet has links lead to other files, and
// others write to the file, or put another one in its place. It is never "".
func (f *files) stamp() (stamp string, count int) {
	b := []byte("stamp ")
	for name := range f.all {
		count++
		if info, err := os.Stat(name); err == nil {
			b = fmt.Appendf(b, "%s %d %d,", name, info.Size(), info.ModTime().UnixNano())
			if stat, is := info.Sys().(*syscall.Stat_t); is {
				// A program may give a file the time that it had (touch).
				b = fmt.Appendf(b, "%d %d %d ", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
			}
		}
	}
	return string(b), count
}

// values are what the files have.
func (f *files) values() (values []string) {
	for name := range f.all {
		if value := f.read(name); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// all are the names of the files.
func (f *files) all(yield func(name string) bool) {
	for _, path := range f.paths {
		f.at.Store(&path)
		for _, name := range filesIn(path) {
			f.at.Store(&name)
			if !yield(name) {
				return
			}
		}
	}
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
	// To open what is no file may do something.
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return readRegular(name)
}

// readRegular is readSecret of what was a file a moment ago: it may be a pipe by now,
// for whose other end nobody waits.
func readRegular(name string) string {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	for errors.Is(err, syscall.EAGAIN) {
		time.Sleep(leased)
		file, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	value, err := io.ReadAll(io.LimitReader(file, maxSecret))
	if err != nil {
		return ""
	}
	return string(value)
}
