// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package storagetest is the conformance test of a storage.Bucket.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A Place is an empty store. Each call opens it for another replica.
type Place func(t *testing.T) storage.Bucket

// Run runs the conformance tests, each in a new place.
func Run(t *testing.T, place func(t *testing.T) Place) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Place){
		"an object is written once":                  writtenOnce,
		"an empty object exists":                     empty,
		"a listing has the objects of one directory": listing,
		"a long listing has all objects":             longListing,
		"the directories below one are found":        directories,
		"a walk has what comes after a name":         walk,
		"a scan has what begins with a prefix":       scan,
		"deleting a missing object is no error":      deletion,
		"many objects are deleted at once":           deleteAll,
		"one of many writers wins":                   manyWriters,
		"another replica sees an object at once":     otherReplica,
		"a key can't escape from the bucket":         keys,
		"a canceled call fails at once":              canceled,
	} {
		t.Run(name, func(t *testing.T) { test(t, place(t)) })
	}
}

func names(t *testing.T, bucket storage.Bucket, directory string) (list []string) {
	t.Helper()
	objects, err := bucket.List(t.Context(), directory)
	require.NoError(t, err)
	for _, o := range objects {
		list = append(list, o.Name)
	}
	return list
}

func create(t *testing.T, bucket storage.Bucket, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, bucket.Create(t.Context(), key, []byte("content")))
	}
}

// coarse is the tolerance for the store's clock, which is that of the same machine, and
// for its resolution.
const coarse = 2 * time.Second

func writtenOnce(t *testing.T, place Place) {
	bucket, before := place(t), time.Now()
	require.NoError(t, bucket.Create(t.Context(), "a/b/c", []byte("first")))
	require.ErrorIs(t, bucket.Create(t.Context(), "a/b/c", []byte("second")), storage.ErrExists)
	require.ErrorIs(t, bucket.Create(t.Context(), "a/b/c", []byte("first")), storage.ErrExists)
	content, err := bucket.Read(t.Context(), "a/b/c")
	require.NoError(t, err)
	require.Equal(t, "first", string(content))
	objects, err := bucket.List(t.Context(), "a/b")
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, "c", objects[0].Name)
	require.Equal(t, int64(len("first")), objects[0].Size)
	require.WithinRange(t, objects[0].Written, before.Add(-coarse), time.Now().Add(coarse))
}

func empty(t *testing.T, place Place) {
	bucket := place(t)
	require.NoError(t, bucket.Create(t.Context(), "a/b", nil))
	require.ErrorIs(t, bucket.Create(t.Context(), "a/b", nil), storage.ErrExists)
	content, err := bucket.Read(t.Context(), "a/b")
	require.NoError(t, err)
	require.Empty(t, content)
	require.Equal(t, []string{"b"}, names(t, bucket, "a"))
}

func listing(t *testing.T, place Place) {
	bucket := place(t)
	create(t, bucket, "a/2", "a/10", "a/b/1", "ab", "a/1", "a/~.-_Z")
	require.Equal(t, []string{"1", "10", "2", "~.-_Z"}, names(t, bucket, "a"))
	require.Equal(t, []string{"1", "10", "2", "~.-_Z"}, names(t, bucket, "a/"))
	require.Equal(t, []string{"1"}, names(t, bucket, "a/b"))
	require.Equal(t, []string{"ab"}, names(t, bucket, "."))
	require.Empty(t, names(t, bucket, "a/c"))
	seen := 0
	require.NoError(t, bucket.Each(t.Context(), "a", func(storage.Object) bool {
		seen++
		return seen < 2
	}))
	require.Equal(t, 2, seen, "each is called until it returns false")
}

// many is more than a store lists in one page: 1,000 or 1,024.
const many = 1100

func longListing(t *testing.T, place Place) {
	bucket := place(t)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range many {
		group.Go(func() error {
			return errors.Join(bucket.Create(t.Context(), fmt.Sprintf("a/%04d", i), nil), bucket.Create(t.Context(), fmt.Sprintf("b/%04d/x", i), nil))
		})
	}
	require.NoError(t, group.Wait())
	list := names(t, bucket, "a")
	require.Len(t, list, many)
	for i, name := range list {
		require.Equal(t, fmt.Sprintf("%04d", i), name)
	}
	last, count := "0002", 0
	require.NoError(t, bucket.Walk(t.Context(), "a", last, func(o storage.Object) bool {
		require.Greater(t, o.Name, last)
		last, count = o.Name, count+1
		return true
	}))
	require.Equal(t, many-3, count)
	found := map[string]bool{}
	require.NoError(t, bucket.Directories(t.Context(), "b", func(name string) bool {
		found[name] = true
		return true
	}))
	require.Len(t, found, many)
	walked := 0
	require.NoError(t, bucket.Walk(t.Context(), "b", "", func(o storage.Object) bool {
		walked++
		return found[strings.TrimSuffix(o.Name, "/x")]
	}))
	require.Equal(t, many, walked)
}

func directories(t *testing.T, place Place) {
	bucket := place(t)
	create(t, bucket, "a/1", "a/b/1", "a/b/2", "a/c/d/1", "e/1")
	for directory, want := range map[string][]string{"a": {"b", "c"}, "a/c": {"d"}, "e": nil, "no": nil} {
		var found []string
		require.NoError(t, bucket.Directories(t.Context(), directory, func(name string) bool {
			found = append(found, name)
			return true
		}))
		require.ElementsMatch(t, want, found, directory)
	}
	seen := 0
	require.NoError(t, bucket.Directories(t.Context(), "a", func(string) bool {
		seen++
		return false
	}))
	require.Equal(t, 1, seen, "each is called until it returns false")
}

// walked returns the names of a walk.
func walked(t *testing.T, bucket storage.Bucket, directory, after string) (list []string) {
	t.Helper()
	require.NoError(t, bucket.Walk(t.Context(), directory, after, func(o storage.Object) bool {
		require.Equal(t, int64(len("content")), o.Size)
		require.WithinRange(t, o.Written, time.Now().Add(-time.Minute), time.Now().Add(coarse))
		list = append(list, o.Name)
		return true
	}))
	return list
}

func walk(t *testing.T, place Place) {
	bucket := place(t)
	create(t, bucket, "a/meta", "a/data/1", "a/data/2", "a/data/10", "a/data-x", "a/end", "ab", "b/1")
	all := []string{"data-x", "data/1", "data/10", "data/2", "end", "meta"}
	require.Equal(t, all, walked(t, bucket, "a", ""))
	require.Equal(t, all, walked(t, bucket, "a/", ""))
	require.Equal(t, all[2:], walked(t, bucket, "a", "data/1"))
	require.Equal(t, all[4:], walked(t, bucket, "a", "data/3"))
	require.Equal(t, []string{"2"}, walked(t, bucket, "a/data", "11"))
	require.Empty(t, walked(t, bucket, "a/data", "2"))
	require.Empty(t, walked(t, bucket, "c", ""))
	seen := 0
	require.NoError(t, bucket.Walk(t.Context(), "a", "", func(storage.Object) bool {
		seen++
		return seen < 3
	}))
	require.Equal(t, 3, seen, "each is called until it returns false")
}

func scan(t *testing.T, place Place) {
	bucket := place(t)
	create(t, bucket, "a/71/end", "a/71/data/2", "a/71/data/1", "a/71-x", "a/70", "a/8", "a/6/7/1", "a7")
	for prefix, want := range map[string][]string{
		"a/7":  {"a/70", "a/71-x", "a/71/data/1", "a/71/data/2", "a/71/end"},
		"a/71": {"a/71-x", "a/71/data/1", "a/71/data/2", "a/71/end"},
		"a/":   {"a/6/7/1", "a/70", "a/71-x", "a/71/data/1", "a/71/data/2", "a/71/end", "a/8"},
		"a/9":  nil, "b/7": nil,
	} {
		var found []string
		require.NoError(t, bucket.Scan(t.Context(), prefix, func(o storage.Object) bool {
			found = append(found, o.Name)
			return true
		}))
		require.Equal(t, want, found, prefix)
	}
	seen := 0
	require.NoError(t, bucket.Scan(t.Context(), "a/7", func(storage.Object) bool {
		seen++
		return seen < 4
	}))
	require.Equal(t, 4, seen, "each is called until it returns false")
}

func deleteAll(t *testing.T, place Place) {
	bucket := place(t)
	var keys []string
	var group errgroup.Group
	group.SetLimit(16)
	for i := range many {
		key := fmt.Sprintf("a/%04d", i)
		keys = append(keys, key)
		group.Go(func() error { return bucket.Create(t.Context(), key, nil) })
	}
	require.NoError(t, group.Wait())
	create(t, bucket, "a/stays")
	require.NoError(t, bucket.DeleteAll(t.Context(), append(keys, "a/missing")))
	require.Equal(t, []string{"stays"}, names(t, bucket, "a"))
	require.NoError(t, bucket.DeleteAll(t.Context(), nil))
}

func deletion(t *testing.T, place Place) {
	bucket := place(t)
	_, err := bucket.Read(t.Context(), "a/1")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, bucket.Delete(t.Context(), "a/1"))
	create(t, bucket, "a/1")
	require.NoError(t, bucket.Delete(t.Context(), "a/1"))
	_, err = bucket.Read(t.Context(), "a/1")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.Empty(t, names(t, bucket, "a"))
	create(t, bucket, "a/1")
}

// by returns the content of a writer.
func by(i int) []byte { return bytes.Repeat(fmt.Append(nil, i), 5000) }

func manyWriters(t *testing.T, place Place) {
	const writers, objects = 8, 30
	var won [objects]atomic.Int32
	var winner [objects]atomic.Int64
	var group errgroup.Group
	for i := range writers {
		bucket := place(t)
		group.Go(func() error {
			for key := range objects {
				err := bucket.Create(t.Context(), fmt.Sprintf("deep/%d/er/%d", key%7, key), by(i))
				switch {
				case err == nil:
					won[key].Add(1)
					winner[key].Store(int64(i))
				case !errors.Is(err, storage.ErrExists):
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	bucket := place(t)
	for key := range objects {
		require.Equal(t, int32(1), won[key].Load(), "successful writes of object %d", key)
		content, err := bucket.Read(t.Context(), fmt.Sprintf("deep/%d/er/%d", key%7, key))
		require.NoError(t, err)
		require.Equal(t, by(int(winner[key].Load())), content)
	}
}

func otherReplica(t *testing.T, place Place) {
	one, other := place(t), place(t)
	for i := range 20 {
		key := fmt.Sprintf("a/%02d", i)
		create(t, one, key)
		require.Len(t, names(t, other, "a"), i+1)
		_, err := other.Read(t.Context(), key)
		require.NoError(t, err)
	}
	require.NoError(t, one.Delete(t.Context(), "a/00"))
	require.Len(t, names(t, other, "a"), 19)
}

func keys(t *testing.T, place Place) {
	bucket := place(t)
	for _, key := range []string{"../x", "a/../../x", "/x", "", "."} {
		require.Error(t, bucket.Create(t.Context(), key, nil), key)
	}
}

func canceled(t *testing.T, place Place) {
	bucket := place(t)
	create(t, bucket, "a/1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, bucket.Create(ctx, "a/2", nil), context.Canceled)
	_, err := bucket.Read(ctx, "a/1")
	require.ErrorIs(t, err, context.Canceled)
	_, err = bucket.List(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"1"}, names(t, bucket, "a"))
}
