// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// temporaryDirectory has files that have no key yet. No key begins with its name.
const temporaryDirectory = "unfinished"

// staleAfter is the age from which a temporary file must be left from a crash: writing a
// file takes milliseconds.
const staleAfter = time.Hour

// Files is a Bucket in a directory of a file system with hard links, such as ext4, XFS
// and NFS. Keys are paths below the directory.
type Files struct {
	root *os.Root

	mu      sync.Mutex
	durable map[string]bool // directories that were synced to the disk
}

// maxKnownDurable bounds Files.durable. Other directories are synced again.
const maxKnownDurable = 10_000

// OpenFiles opens an existing directory, and removes stale temporary files.
func OpenFiles(directory string) (*Files, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the logs: %w", err)
	}
	f := &Files{root: root, durable: map[string]bool{}}
	if err := errors.Join(f.makeDirectory(temporaryDirectory), f.removeStale(time.Now())); err != nil {
		return nil, fmt.Errorf("preparing the directory of the logs, %q: %w", directory, errors.Join(err, root.Close()))
	}
	return f, nil
}

// maxLinkTries bounds how often Create tries again because the directory of its key was
// removed meanwhile.
const maxLinkTries = 10

// Space returns how many bytes and inodes the file system has left. An object takes an
// inode. Without a limit of inodes, it returns infinity.
func (f *Files) Space() (bytes, inodes float64, err error) {
	directory, err := f.root.Open(".")
	if err != nil {
		return 0, 0, err
	}
	defer directory.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(directory.Fd()), &st); err != nil {
		return 0, 0, fmt.Errorf("asking the file system for its free space: %w", err)
	}
	if inodes = float64(st.Ffree); st.Files == 0 {
		inodes = math.Inf(1)
	}
	return float64(st.Bavail) * float64(st.Bsize), inodes, nil
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

func (f *Files) removeStale(now time.Time) error {
	left, err := f.List(context.Background(), temporaryDirectory)
	for _, o := range left {
		if now.Sub(o.Written) > staleAfter {
			err = errors.Join(err, f.Delete(context.Background(), path.Join(temporaryDirectory, o.Name)))
		}
	}
	return err
}

// Create implements Bucket: it writes a temporary file to the disk, and then links it to
// its key, which is exclusive.
func (f *Files) Create(ctx context.Context, key string, content []byte) error {
	err := f.create(ctx, key, content)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", key, err)
	}
	return nil
}

func (f *Files) create(ctx context.Context, key string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !fs.ValidPath(key) || key == "." {
		return fs.ErrInvalid
	}
	if err := f.makeDirectory(path.Dir(key)); err != nil {
		return err
	}
	temporary := path.Join(temporaryDirectory, rand.Text())
	if err := f.write(temporary, content); err != nil {
		return errors.Join(err, f.Delete(ctx, temporary))
	}
	err := f.link(temporary, key)
	if err == nil || errors.Is(err, fs.ErrExist) {
		// The other writer may not have synced the directory yet.
		if failed := f.sync(path.Dir(key)); failed != nil {
			err = failed
		}
	}
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	return errors.Join(err, f.root.Remove(temporary))
}

// link links a file to its key. It creates the directory again if that was removed
// meanwhile.
func (f *Files) link(temporary, key string) (err error) {
	for range maxLinkTries {
		if err = f.root.Link(temporary, key); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := f.makeDirectory(path.Dir(key)); err != nil {
			return err
		}
	}
	return err
}

// write writes a new file to the disk.
func (f *Files) write(name string, content []byte) (err error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Sync()
}

// sync writes the entries of a directory to the disk.
func (f *Files) sync(directory string) (err error) {
	d, err := f.root.Open(directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// makeDirectory creates a directory durably, with those above it.
func (f *Files) makeDirectory(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.makeLocked(name)
}

func (f *Files) makeLocked(name string) error {
	if name == "." || f.durable[name] {
		return nil
	}
	above := path.Dir(name)
	if err := f.makeLocked(above); err != nil {
		return err
	}
	if err := f.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := f.sync(above); err != nil {
		return err
	}
	if len(f.durable) >= maxKnownDurable {
		clear(f.durable)
	}
	f.durable[name] = true
	return nil
}

// Read implements Bucket.
func (f *Files) Read(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	content, err := f.root.ReadFile(key)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	return content, nil
}

// List implements Bucket.
func (f *Files) List(ctx context.Context, directory string) (objects []Object, err error) {
	err = f.Each(ctx, directory, func(o Object) bool {
		objects = append(objects, o)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// Each implements Bucket.
func (f *Files) Each(ctx context.Context, directory string, each func(Object) bool) error {
	return f.entries(ctx, directory, func(info fs.FileInfo) bool {
		return !info.Mode().IsRegular() || each(Object{Name: info.Name(), Size: info.Size(), Written: info.ModTime()})
	})
}

// Walk implements Bucket. Only objects after the name are looked at.
func (f *Files) Walk(ctx context.Context, directory, after string, each func(Object) bool) error {
	if _, err := f.walk(ctx, directory, "", after, each); err != nil {
		return fmt.Errorf("listing %q: %w", directory, err)
	}
	return nil
}

// Scan implements Bucket.
func (f *Files) Scan(ctx context.Context, prefix string, each func(Object) bool) error {
	directory, start := path.Split(prefix)
	directory = path.Clean(directory)
	entries, err := f.sortedEntries(ctx, directory)
	below := strings.TrimPrefix(directory+"/", "./")
	for _, entry := range entries {
		if err != nil || !strings.HasPrefix(entry.Name(), start) {
			continue
		}
		var more bool
		if more, err = f.walkEntry(ctx, ".", below, "", entry, each); err == nil && !more {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("listing %q: %w", prefix, err)
	}
	return nil
}

// walk is Walk for the part of the directory below a name, which is "" or ends with a
// slash. It reports whether each wants more.
func (f *Files) walk(ctx context.Context, directory, below, after string, each func(Object) bool) (more bool, err error) {
	entries, err := f.sortedEntries(ctx, path.Join(directory, below))
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if more, err := f.walkEntry(ctx, directory, below, after, entry, each); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// walkEntry is walk for one entry.
func (f *Files) walkEntry(ctx context.Context, directory, below, after string, entry fs.DirEntry, each func(Object) bool) (more bool, err error) {
	name := below + sortName(entry)
	if entry.IsDir() {
		return f.walk(ctx, directory, name, after, each)
	}
	if name <= after || !entry.Type().IsRegular() {
		return true, nil
	}
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // the object was just deleted
	}
	if err != nil {
		return false, err
	}
	return each(Object{Name: name, Size: info.Size(), Written: info.ModTime()}), nil
}

// sortName returns the name by which an entry is sorted: keys are compared as a whole.
func sortName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

func (f *Files) sortedEntries(ctx context.Context, directory string) (entries []fs.DirEntry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := f.root.Open(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err = d.ReadDir(-1)
	if errors.Is(err, fs.ErrNotExist) { // the directory was removed with its last object
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, err
}

// Directories implements Bucket. Empty directories may be among the results.
func (f *Files) Directories(ctx context.Context, directory string, each func(name string) bool) error {
	return f.entries(ctx, directory, func(info fs.FileInfo) bool {
		return !info.IsDir() || each(info.Name())
	})
}

// entries calls each for the entries of a directory, if it exists.
func (f *Files) entries(ctx context.Context, directory string, each func(fs.FileInfo) bool) error {
	if err := f.eachEntry(ctx, directory, each); err != nil {
		return fmt.Errorf("listing %q: %w", directory, err)
	}
	return nil
}

// pageSize is how many entries of a directory are read at a time.
const pageSize = 1024

func (f *Files) eachEntry(ctx context.Context, directory string, each func(fs.FileInfo) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := f.root.Open(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(pageSize)
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) { // the directory was removed with its last object
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // the object was just deleted
			}
			if err != nil {
				return err
			}
			if !each(info) {
				return nil
			}
		}
	}
}

// Delete implements Bucket. It also removes directories that become empty.
func (f *Files) Delete(_ context.Context, key string) error {
	if err := f.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for above := path.Dir(key); above != "." && above != temporaryDirectory && f.root.Remove(above) == nil; above = path.Dir(above) {
		delete(f.durable, above)
	}
	return nil
}

// DeleteAll implements Bucket.
func (f *Files) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := errors.Join(ctx.Err(), f.Delete(ctx, key)); err != nil {
			return err
		}
	}
	return nil
}
