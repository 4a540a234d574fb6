// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package secretfiles reads the files whose content is masked. The shipper masks their
// content (package ship), and the supervisor remembers what they contained (Witness).
package secretfiles

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
	// mebi is one MiB.
	mebi = 1 << 20
	// MaxSecret bounds the size of one file, in bytes: a Secret can't hold more.
	MaxSecret = 1 * mebi
	// maxSecrets bounds the size of all files, in bytes: a masker takes some fifty times as
	// much of the container's memory.
	maxSecrets = 4 * mebi
	// MaxFiles bounds the files and directories below one path.
	MaxFiles = 1000
	// leaseRetry is the pause between attempts to open a file on which another process holds
	// a lease (fcntl(2), F_SETLEASE). The kernel breaks the lease within 45 s.
	leaseRetry = 10 * time.Millisecond
)

// Files are the files whose content is masked.
type Files struct {
	Paths []string // files, and directories of files

	Stat    func(name string) (os.FileInfo, error)
	Read    func(name string) (string, error)
	current atomic.Pointer[string] // the file under inspection
}

// New returns the files of some paths, which are files or directories of files.
func New(paths []string) *Files { return &Files{Paths: paths, Stat: os.Stat, Read: ReadSecret} }

// SlowAfter is how long an inspection may take before Slow is reported.
const SlowAfter = 2 * time.Second

// Slow says which file doesn't respond to the inspection, "" before the first inspection.
func (f *Files) Slow() string {
	name := f.current.Load()
	if name == nil {
		return ""
	}
	return fmt.Sprintf("looking at %q, whose content is masked, takes long: nothing is sent until its volume answers", *name)
}

// Stamp returns a text that changes when a file changes: the kubelet exchanges symbolic
// links, and other programs rewrite or replace the file. It is never "".
func (f *Files) Stamp() (stamp string, count int, err error) {
	b, total := []byte("stamp "), int64(0)
	err = f.Each(func(name string) error {
		count++
		info, err := f.Stat(name)
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return unreadable(name, err)
		}
		b = fmt.Appendf(b, "%s %d %d,", name, info.Size(), info.ModTime().UnixNano())
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			// A program can set back the modification time (touch), but not the ctime.
			b = fmt.Appendf(b, "%d %d %d ", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		total += info.Size()
		return checkSize(name, info.Size(), total)
	})
	return string(b), count, err
}

// Values returns the contents of the files.
func (f *Files) Values() (values []string, err error) {
	total := int64(0)
	err = f.Each(func(name string) error {
		value, err := f.Read(name)
		if err != nil && !isAbsent(err) {
			return unreadable(name, err)
		}
		if value != "" {
			values = append(values, value)
		}
		total += int64(len(value))
		return checkSize(name, int64(len(value)), total)
	})
	return values, err
}

// isAbsent reports whether an error says that the command can't read a file either. After
// any other error, such as EIO, or EMFILE while the node has no file descriptors left, the
// file may be read later, by the command as well.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ELOOP)
}

func unreadable(name string, err error) error {
	if path, is := errors.AsType[*os.PathError](err); is {
		err = path.Err
	}
	return fmt.Errorf("reading %q, whose content is masked: %w: nothing is sent until it can be read", name, err)
}

// checkSize returns an error if a file of this size can't be masked, or the files up to
// it with this total.
func checkSize(name string, size, total int64) error {
	switch {
	case size > MaxSecret:
		return fmt.Errorf("%q, whose content is masked, has more than %d MiB: nothing is sent; name or mount a smaller file", name, MaxSecret/mebi)
	case total > maxSecrets:
		return fmt.Errorf("files whose content is masked have more than %d MiB together: nothing is sent; name or mount fewer of them", maxSecrets/mebi)
	}
	return nil
}

// Each calls do for each file until do fails.
func (f *Files) Each(do func(name string) error) error {
	for _, path := range f.Paths {
		f.current.Store(&path)
		names, err := FilesIn(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			f.current.Store(&name)
			if err := do(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// FilesIn returns the file of a path, or all files below a directory.
func FilesIn(path string) (names []string, err error) {
	left := MaxFiles
	listed := map[fileID]bool{}
	var add func(name string) error
	add = func(name string) error {
		if left--; left < 0 {
			return fmt.Errorf("%q has more than %d files and directories, whose content is masked: nothing is sent; name or mount fewer of them", path, MaxFiles)
		}
		entries, id, err := readDirectory(name)
		switch {
		case isAbsent(err): // or a file
			names = append(names, name)
			return nil
		case err != nil:
			return unreadable(name, err)
		case listed[id]:
			return nil
		}
		listed[id] = true // only once, because a link inside of it may lead back to it
		for _, entry := range entries {
			// Names with two dots are the kubelet's: the other entries link to their content.
			if strings.HasPrefix(entry.Name(), "..") {
				continue
			}
			if err := add(filepath.Join(name, entry.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	err = add(path)
	return names, err
}

// A fileID identifies a file across links.
type fileID struct{ device, inode uint64 }

// readDirectory returns up to MaxFiles+1 entries of a directory.
func readDirectory(path string) (entries []os.DirEntry, id fileID, err error) {
	directory, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, id, err
	}
	defer func() { _ = directory.Close() }()
	info, err := directory.Stat()
	if err != nil {
		return nil, id, err
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		id = fileID{stat.Dev, stat.Ino}
	}
	entries, err = directory.ReadDir(MaxFiles + 1)
	if errors.Is(err, io.EOF) { // the directory is empty
		err = nil
	}
	return entries, id, err
}

// ReadSecret returns the content of a file, "" if it isn't a regular one. Of a file that is
// too large, it returns one byte more than can be masked.
func ReadSecret(name string) (string, error) {
	// Opening a device or a pipe can have side effects.
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	return readRegular(name)
}

// readRegular is ReadSecret after the check: another process may have replaced the file
// by a pipe, so opening it mustn't block.
func readRegular(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	for errors.Is(err, syscall.EAGAIN) {
		time.Sleep(leaseRetry)
		file, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if errors.Is(err, syscall.ENXIO) { // a socket
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	value, err := io.ReadAll(io.LimitReader(file, MaxSecret+1))
	return string(value), err
}
