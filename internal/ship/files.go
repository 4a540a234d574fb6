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
	// mebi is one MiB.
	mebi = 1 << 20
	// maxSecret bounds the size of one file, in bytes: a Secret can't hold more.
	maxSecret = 1 * mebi
	// maxSecrets bounds the size of all files, in bytes: a masker takes some fifty times as
	// much of the container's memory.
	maxSecrets = 4 * mebi
	// maxFiles bounds the files and directories below one path.
	maxFiles = 1000
	// slowAfter is how long an inspection may take before onFailure is called, and the pause
	// between inspections of files that are too large.
	slowAfter = 2 * time.Second
	// leaseRetry is the pause between attempts to open a file on which another process holds
	// a lease (fcntl(2), F_SETLEASE). The kernel breaks the lease within 45 s.
	leaseRetry = 10 * time.Millisecond
)

// files are the files whose content is masked.
type files struct {
	paths []string // files, and directories of files
	// onFailure is called while nothing can be sent, because the unread content may be a
	// secret: a file can't be read, doesn't respond, such as on a volume whose server is
	// gone, or the files are too large to be masked.
	onFailure func(reason string)

	stat    func(name string) (os.FileInfo, error)
	read    func(name string) (string, error)
	current atomic.Pointer[string] // the file under inspection
}

func newFiles(paths []string, onFailure func(reason string)) *files {
	return &files{paths: paths, onFailure: onFailure, stat: os.Stat, read: readSecret}
}

// An inspection is what was found out about the files.
type inspection struct {
	stamp  string // see files.stamp
	count  int
	values []string // the contents, if the stamp has changed
	err    error    // why the files can't be masked
}

// waitUntilMaskable inspects the files until all of them respond and can be masked. It
// returns their values unless they still have the stamp of an earlier inspection.
func (f *files) waitUntilMaskable(before string) inspection {
	if len(f.paths) == 0 {
		return inspection{}
	}
	for {
		l := f.inspect(before)
		if l.err == nil {
			return l
		}
		f.onFailure(l.err.Error())
		time.Sleep(slowAfter)
	}
}

// inspect returns when all files have responded.
func (f *files) inspect(before string) (l inspection) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.stamp, l.count, l.err = f.stamp(); l.err == nil && l.stamp != before {
			l.values, l.err = f.values()
		}
	}()
	tick := time.NewTicker(slowAfter)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return l
		case <-tick.C:
			if name := f.current.Load(); name != nil {
				f.onFailure(fmt.Sprintf("looking at %q, whose content is masked, takes long: nothing is sent until its volume answers", *name))
			}
		}
	}
}

// stamp returns a text that changes when a file changes: the kubelet exchanges symbolic
// links, and other programs rewrite or replace the file. It is never "".
func (f *files) stamp() (stamp string, count int, err error) {
	b, total := []byte("stamp "), int64(0)
	err = f.each(func(name string) error {
		count++
		info, err := f.stat(name)
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

// values returns the contents of the files.
func (f *files) values() (values []string, err error) {
	total := int64(0)
	err = f.each(func(name string) error {
		value, err := f.read(name)
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
	case size > maxSecret:
		return fmt.Errorf("%q, whose content is masked, has more than %d MiB: nothing is sent; name or mount a smaller file", name, maxSecret/mebi)
	case total > maxSecrets:
		return fmt.Errorf("files whose content is masked have more than %d MiB together: nothing is sent; name or mount fewer of them", maxSecrets/mebi)
	}
	return nil
}

// each calls do for each file until do fails.
func (f *files) each(do func(name string) error) error {
	for _, path := range f.paths {
		f.current.Store(&path)
		names, err := filesIn(path)
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

// filesIn returns the file of a path, or all files below a directory.
func filesIn(path string) (names []string, err error) {
	left := maxFiles
	listed := map[fileID]bool{}
	var add func(name string) error
	add = func(name string) error {
		if left--; left < 0 {
			return fmt.Errorf("%q has more than %d files and directories, whose content is masked: nothing is sent; name or mount fewer of them", path, maxFiles)
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

// readDirectory returns up to maxFiles+1 entries of a directory.
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
	entries, err = directory.ReadDir(maxFiles + 1)
	if errors.Is(err, io.EOF) { // the directory is empty
		err = nil
	}
	return entries, id, err
}

// readSecret returns the content of a file, "" if it isn't a regular one. Of a file that is
// too large, it returns one byte more than can be masked.
func readSecret(name string) (string, error) {
	// Opening a device or a pipe can have side effects.
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	return readRegular(name)
}

// readRegular is readSecret after the check: another process may have replaced the file
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
	value, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	return string(value), err
}
