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
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// unfinished is the directory of files that have no key yet. No key begins so.
const unfinished = "unfinished"

// staleAfter is how old a file without a key is that a crash has left behind:
// writing one takes milliseconds.
const staleAfter = time.Hour

// Files is a Bucket in a directory of a file system that has hard links, as ext4,
// XFS and NFS do. A key is a path below it.
type Files struct {
	root *os.Root

	mu      sync.Mutex
	durable map[string]bool // directories that the disk knows
}

// maxDurable is how many of them are remembered; the others are synced again.
const maxDurable = 10_000

// OpenFiles opens a directory, which has to exist, and removes what crashes have
// left there.
func OpenFiles(directory string) (*Files, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the logs: %w", err)
	}
	f := &Files{root: root, durable: map[string]bool{}}
	if err := errors.Join(f.makeDirectory(unfinished), f.removeStale(time.Now())); err != nil {
		return nil, fmt.Errorf("preparing the directory of the logs, %q: %w", directory, errors.Join(err, root.Close()))
	}
	return f, nil
}

// linkTries is how often the directory of a new object may be removed meanwhile.
const linkTries = 10

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

func (f *Files) removeStale(now time.Time) error {
	left, err := f.List(context.Background(), unfinished)
	for _, o := range left {
		if now.Sub(o.Written) > staleAfter {
			err = errors.Join(err, f.Delete(context.Background(), path.Join(unfinished, o.Name)))
		}
	}
	return err
}

// Create implements Bucket: the content gets its key, which is exclusive, when it
// is on the disk.
func (f *Files) Create(ctx context.Context, key string, content []byte) error {
	if err := f.create(ctx, key, content); err != nil {
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
	temporary := path.Join(unfinished, rand.Text())
	if err := f.write(temporary, content); err != nil {
		return errors.Join(err, f.Delete(ctx, temporary))
	}
	err := f.link(temporary, key)
	if err == nil || errors.Is(err, fs.ErrExist) {
		// Whoever has written the other may not be so far yet.
		if failed := f.sync(path.Dir(key)); failed != nil {
			err = failed
		}
	}
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	return errors.Join(err, f.root.Remove(temporary))
}

// link gives a file its key. The directory may have been removed since it was made.
func (f *Files) link(temporary, key string) (err error) {
	for range linkTries {
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

// sync has the disk know what is in a directory.
func (f *Files) sync(directory string) (err error) {
	d, err := f.root.Open(directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// makeDirectory makes a directory and those above it durable.
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
	if len(f.durable) >= maxDurable {
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

// Directories implements Bucket. One that is empty may be among them.
func (f *Files) Directories(ctx context.Context, directory string, each func(name string) bool) error {
	return f.entries(ctx, directory, func(info fs.FileInfo) bool {
		return !info.IsDir() || each(info.Name())
	})
}

// entries passes on what is in a directory, if there is one.
func (f *Files) entries(ctx context.Context, directory string, each func(fs.FileInfo) bool) error {
	if err := f.eachEntry(ctx, directory, each); err != nil {
		return fmt.Errorf("listing %q: %w", directory, err)
	}
	return nil
}

// atOnce is how many entries of a directory are held at a time.
const atOnce = 1024

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
		entries, err := d.ReadDir(atOnce)
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) { // it was removed with its last object
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has just been deleted
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

// Delete implements Bucket. Directories that are empty then are removed too.
func (f *Files) Delete(_ context.Context, key string) error {
	if err := f.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for above := path.Dir(key); above != "." && above != unfinished && f.root.Remove(above) == nil; above = path.Dir(above) {
		delete(f.durable, above)
	}
	return nil
}
