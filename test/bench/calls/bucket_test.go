// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A tally counts requests as S3 bills them, and objects.
type tally struct{ puts, lists, gets, deletes, objects float64 }

// The list prices of S3 (Standard, us-east-1), in dollars for a request. COPY and POST cost
// as much as PUT, and HEAD as GET. DELETE is free.
const (
	priceOfPut  = 5e-6
	priceOfList = 5e-6
	priceOfGet  = 0.4e-6
)

func (c tally) dollars() float64 {
	return c.puts*priceOfPut + c.lists*priceOfList + c.gets*priceOfGet
}

// plus returns c + factor*d.
func (c tally) plus(d tally, factor float64) tally {
	return tally{c.puts + factor*d.puts, c.lists + factor*d.lists, c.gets + factor*d.gets, c.deletes + factor*d.deletes, c.objects + factor*d.objects}
}

// A bucket is a storage.Bucket in memory that counts.
type bucket struct {
	mu          sync.Mutex
	directories map[string]map[string]object // by the path of the directory, and by name
	count       tally
}

type object struct {
	content []byte
	written time.Time
}

func newBucket() *bucket { return &bucket{directories: map[string]map[string]object{}} }

// counted returns what was called so far.
func (b *bucket) counted() tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, objects := range b.directories {
		b.count.objects += float64(len(objects))
	}
	defer func() { b.count.objects = 0 }()
	return b.count
}

// Create implements storage.Bucket.
func (b *bucket) Create(_ context.Context, key string, content []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.puts++
	directory, name := path.Split(key)
	directory = path.Clean(directory)
	if _, exists := b.directories[directory][name]; exists {
		b.count.gets++ // HEAD, to compare the writer
		return storage.ErrExists
	}
	if b.directories[directory] == nil {
		b.directories[directory] = map[string]object{}
	}
	b.directories[directory][name] = object{slices.Clone(content), time.Now()}
	return nil
}

// Read implements storage.Bucket.
func (b *bucket) Read(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.gets++
	directory, name := path.Split(key)
	o, exists := b.directories[path.Clean(directory)][name]
	if !exists {
		return nil, storage.ErrNotFound
	}
	return o.content, nil
}

// page is how many entries a response to LIST has at most.
const page = 1000

// countList counts the requests for a listing.
func (b *bucket) countList(entries int) { b.count.lists += float64(max(1, (entries+page-1)/page)) }

// List implements storage.Bucket.
func (b *bucket) List(_ context.Context, directory string) (list []storage.Object, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	objects := b.directories[path.Clean(directory)]
	b.countList(len(objects) + len(b.below(directory)))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, storage.Object{Name: name, Size: int64(len(objects[name].content)), Written: objects[name].written})
	}
	return list, nil
}

// Each implements storage.Bucket.
func (b *bucket) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	list, err := b.List(ctx, directory)
	for _, o := range list {
		if !each(o) {
			break
		}
	}
	return err
}

// Walk implements storage.Bucket.
func (b *bucket) Walk(_ context.Context, directory, after string, each func(storage.Object) bool) error {
	return b.walk(directory, after, "", each)
}

func (b *bucket) walk(directory, after, start string, each func(storage.Object) bool) error {
	b.mu.Lock()
	var list []storage.Object
	clean := path.Clean(directory)
	for other, objects := range b.directories {
		below, is := strings.CutPrefix(other+"/", clean+"/")
		for name, o := range objects {
			if name = below + name; is && name > after && strings.HasPrefix(name, start) {
				list = append(list, storage.Object{Name: name, Size: int64(len(o.content)), Written: o.written})
			}
		}
	}
	b.countList(len(list))
	b.mu.Unlock()
	slices.SortFunc(list, func(a, b storage.Object) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range list {
		if !each(o) {
			break
		}
	}
	return nil
}

// below returns the names of the directories in a directory.
func (b *bucket) below(directory string) map[string]bool {
	found, prefix := map[string]bool{}, path.Clean(directory)+"/"
	for other, objects := range b.directories {
		if rest, is := strings.CutPrefix(other, prefix); is && len(objects) > 0 {
			name, _, _ := strings.Cut(rest, "/")
			found[name] = true
		}
	}
	return found
}

// Directories implements storage.Bucket.
func (b *bucket) Directories(_ context.Context, directory string, each func(string) bool) error {
	b.mu.Lock()
	found := b.below(directory)
	b.countList(len(found) + len(b.directories[path.Clean(directory)]))
	b.mu.Unlock()
	for name := range found {
		if !each(name) {
			break
		}
	}
	return nil
}

// Delete implements storage.Bucket.
func (b *bucket) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.deletes++
	directory, name := path.Split(key)
	delete(b.directories[path.Clean(directory)], name)
	return nil
}

// Scan implements storage.Bucket.
func (b *bucket) Scan(ctx context.Context, prefix string, each func(storage.Object) bool) error {
	directory, start := path.Split(prefix)
	return b.walk(directory, "", start, func(o storage.Object) bool {
		o.Name = directory + o.Name
		return each(o)
	})
}

// DeleteAll implements storage.Bucket. It is a POST for each thousand.
func (b *bucket) DeleteAll(_ context.Context, keys []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(keys) > 0 {
		b.count.puts += float64((len(keys) + page - 1) / page)
	}
	for _, key := range keys {
		directory, name := path.Split(key)
		delete(b.directories[path.Clean(directory)], name)
	}
	return nil
}
