// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A Memory is a bucket in memory, with a clock of its own. Several replicas may use it.
type Memory struct {
	mu      sync.Mutex
	now     func() time.Time
	objects map[string]memoryObject
}

type memoryObject struct {
	content []byte
	written time.Time
}

// NewMemory returns an empty bucket.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, objects: map[string]memoryObject{}}
}

// Create implements storage.Bucket.
func (m *Memory) Create(ctx context.Context, key string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !fs.ValidPath(key) || key == "." {
		return fmt.Errorf("writing %q: %w", key, fs.ErrInvalid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.objects[key]; exists {
		return storage.ErrExists
	}
	m.objects[key] = memoryObject{bytes.Clone(content), m.now()}
	return nil
}

// Read implements storage.Bucket.
func (m *Memory) Read(ctx context.Context, key string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, exists := m.objects[key]
	if !exists {
		return nil, fmt.Errorf("reading %q: %w", key, storage.ErrNotFound)
	}
	return o.content, nil
}

// Scan implements storage.Bucket.
func (m *Memory) Scan(ctx context.Context, prefix string, each func(storage.Object) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	var list []storage.Object
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) {
			list = append(list, storage.Object{Name: key, Size: int64(len(o.content)), Written: o.written})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range list {
		if !each(o) {
			break
		}
	}
	return nil
}

// Walk implements storage.Bucket.
func (m *Memory) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	prefix := prefixOf(directory)
	return m.Scan(ctx, prefix, func(o storage.Object) bool {
		o.Name = strings.TrimPrefix(o.Name, prefix)
		return o.Name <= after || each(o)
	})
}

// Each implements storage.Bucket.
func (m *Memory) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	return m.Walk(ctx, directory, "", func(o storage.Object) bool {
		return strings.Contains(o.Name, "/") || each(o)
	})
}

// List implements storage.Bucket.
func (m *Memory) List(ctx context.Context, directory string) (list []storage.Object, err error) {
	err = m.Each(ctx, directory, func(o storage.Object) bool {
		list = append(list, o)
		return true
	})
	return list, err
}

// Directories implements storage.Bucket.
func (m *Memory) Directories(ctx context.Context, directory string, each func(string) bool) error {
	last := ""
	return m.Walk(ctx, directory, "", func(o storage.Object) bool {
		name, _, below := strings.Cut(o.Name, "/")
		if !below || name == last {
			return true
		}
		last = name
		return each(name)
	})
}

// Delete implements storage.Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.DeleteAll(ctx, []string{key})
}

// DeleteAll implements storage.Bucket.
func (m *Memory) DeleteAll(ctx context.Context, keys []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.objects, key)
	}
	return nil
}

func prefixOf(directory string) string {
	if clean := path.Clean(directory); clean != "." {
		return clean + "/"
	}
	return ""
}
