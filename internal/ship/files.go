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
	// mebi is a mebibyte, in bytes.
	mebi = 1 << 20
	// maxSecret is how large a file may be, in bytes: what a Secret can hold.
	maxSecret = 1 * mebi
	// maxSecrets is how large all files may be together, in bytes: a masker takes some
	// fifty times as much memory, which is the container's.
	maxSecrets = 4 * mebi
	// maxFiles is how many files and directories there may be below a path.
	maxFiles = 1000
	// patience is how long a file may take before somebody is told, and the pause
	// between looks at files of which there is too much.
	patience = 2 * time.Second
	// leased is how long to wait between tries to open a file that somebody else has a
	// lease of (fcntl(2), F_SETLEASE): the kernel ends that within 45 s.
	leased = 10 * time.Millisecond
)

// files are those whose content is masked.
type files struct {
	paths []string // of them, and of directories of files
	// tell is told why nothing is sent: a file doesn't answer, because the server of its
	// volume is gone for instance, or there is more than can be masked. What isn't masked
	// may be a secret.
	tell func(why string)

	read func(name string) string
	at   atomic.Pointer[string] // the file that is being looked at
}

func newFiles(paths []string, tell func(why string)) *files {
	return &files{paths: paths, tell: tell, read: readSecret}
}

// A look is what was found of the files.
type look struct {
	stamp  string // see files.stamp
	count  int
	values []string // what they have, if their stamp isn't the one before
	excess error    // why not all of it can be masked
}

// look returns when all files have answered, and can be masked.
func (f *files) look(before string) look {
	if len(f.paths) == 0 {
		return look{}
	}
	for {
		l := f.lookOnce(before)
		if l.excess == nil {
			return l
		}
		f.tell(l.excess.Error())
		time.Sleep(patience)
	}
}

// lookOnce returns when all files have answered.
func (f *files) lookOnce(before string) (l look) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.stamp, l.count, l.excess = f.stamp(); l.excess == nil && l.stamp != before {
			l.values, l.excess = f.values()
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
				f.tell(fmt.Sprintf("looking at %q, whose content is masked, takes long: nothing is sent until its volume answers", *name))
			}
		}
	}
}

// stamp changes when files do: the kubelet has links lead to other files, and
// others write to the file, or put another one in its place. It is never "".
func (f *files) stamp() (stamp string, count int, err error) {
	b, total := []byte("stamp "), int64(0)
	err = f.all(func(name string) error {
		count++
		info, _ := os.Stat(name)
		if info == nil {
			return nil // it isn't there, or the command can't read it either
		}
		b = fmt.Appendf(b, "%s %d %d,", name, info.Size(), info.ModTime().UnixNano())
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			// A program may give a file the time that it had (touch).
			b = fmt.Appendf(b, "%d %d %d ", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		total += info.Size()
		return bounded(name, info.Size(), total)
	})
	return string(b), count, err
}

// values are what the files have.
func (f *files) values() (values []string, err error) {
	total := int64(0)
	err = f.all(func(name string) error {
		value := f.read(name)
		if value != "" {
			values = append(values, value)
		}
		total += int64(len(value))
		return bounded(name, int64(len(value)), total)
	})
	return values, err
}

// bounded is an error if a file of this size, or all up to it together, can't be masked.
func bounded(name string, size, total int64) error {
	switch {
	case size > maxSecret:
		return fmt.Errorf("%q, whose content is masked, has more than %d MiB: nothing is sent; name or mount a smaller file", name, maxSecret/mebi)
	case total > maxSecrets:
		return fmt.Errorf("files whose content is masked have more than %d MiB together: nothing is sent; name or mount fewer of them", maxSecrets/mebi)
	}
	return nil
}

// all has do called with the names of the files, until it fails.
func (f *files) all(do func(name string) error) error {
	for _, path := range f.paths {
		f.at.Store(&path)
		names, whole := filesIn(path)
		if !whole {
			return fmt.Errorf("%q has more than %d files and directories, whose content is masked: nothing is sent; name or mount fewer of them", path, maxFiles)
		}
		for _, name := range names {
			f.at.Store(&name)
			if err := do(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesIn are the files of a directory and of those in it, or the file itself, and
// whether these are all.
func filesIn(path string) (names []string, whole bool) {
	left := maxFiles
	listed := map[fileID]bool{}
	var add func(path string)
	add = func(path string) {
		if left--; left < 0 {
			return
		}
		entries, id, err := entriesOf(path)
		if err != nil {
			names = append(names, path)
			return
		}
		if listed[id] {
			return
		}
		listed[id] = true // once, or a link to it would lead there for ever
		for _, entry := range entries {
			// The kubelet's own begin with two dots. Others are links to what is in them.
			if !strings.HasPrefix(entry.Name(), "..") {
				add(filepath.Join(path, entry.Name()))
			}
		}
	}
	add(path)
	return names, left >= 0
}

// A fileID tells files apart.
type fileID struct{ device, inode uint64 }

// entriesOf are those of a directory, one more than are read at most.
func entriesOf(path string) (entries []os.DirEntry, id fileID, err error) {
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
	if errors.Is(err, io.EOF) { // there are none
		err = nil
	}
	return entries, id, err
}

// readSecret is what a file has, "" if it can't be read: the command can't either. Of one
// that is too large, it is one byte more than can be masked.
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
	value, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return ""
	}
	return string(value)
}
