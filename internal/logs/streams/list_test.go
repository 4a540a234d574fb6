// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

func TestTheStreamsOfAPodAreListedAtEachReplica(t *testing.T) {
	directory := t.TempDir()
	one, another := replica(t, directory), replica(t, directory)
	var want []Listed
	for _, start := range []string{"", "1", "2"} {
		for _, container := range []string{"main", "sidecar"} {
			for _, name := range []string{"stderr", "stdout"} {
				want = append(want, Listed{Source: Source{Namespace: "tenant", Pod: "pod.0", PodUID: "uid", Container: container, Start: start, Name: name}})
			}
		}
	}
	// A later pod has the same name.
	want = append(want, Listed{Source: Source{Namespace: "tenant", Pod: "pod.0", PodUID: "uid-2", Container: "main", Start: "3", Name: "stdout"}})
	for i := len(want) - 1; i >= 0; i-- {
		for range 2 {
			id, err := one.Create(t.Context(), want[i].Source)
			require.NoError(t, err)
			want[i].ID = id
		}
	}
	for _, elsewhere := range []Source{
		{Namespace: "tenant", Pod: "pod", PodUID: "u", Name: "stdout"},
		{Namespace: "tenant-2", Pod: "pod.0", PodUID: "u", Name: "stdout"},
	} {
		_, err := one.Create(t.Context(), elsewhere)
		require.NoError(t, err)
	}
	got, more, err := another.List(t.Context(), "tenant", "pod.0")
	require.NoError(t, err)
	require.False(t, more)
	for i := range got {
		// The index comes right after the stream.
		made, err := one.Created(t.Context(), got[i].ID)
		require.NoError(t, err)
		require.WithinDuration(t, made, got[i].Created, 10*time.Second)
		got[i].Created = time.Time{}
	}
	require.Equal(t, want, got)
	_, err = one.Created(t.Context(), strings.Repeat("0", 32))
	require.ErrorIs(t, err, ErrNoStream)
	got, more, err = another.List(t.Context(), "tenant", "none")
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, got)
}

func TestInvalidPodNamesAreRefused(t *testing.T) {
	s := replica(t, t.TempDir())
	for _, names := range [][2]string{
		{"", "pod"},
		{"tenant", ""},
		{"..", "pod"},
		{"tenant", ".."},
		{"tenant", "../other/pod"},
		{"tenant/other", "pod"},
		{"a.b", "pod"},
		{"Tenant", "pod"},
		{"tenant", "pod\n"},
		{"tenant", strings.Repeat("x", 254)},
		{strings.Repeat("x", 64), "pod"},
	} {
		_, _, err := s.List(t.Context(), names[0], names[1])
		require.ErrorIs(t, err, ErrNoPod, "%q", names)
		_, err = s.Create(t.Context(), Source{Namespace: names[0], Pod: names[1], PodUID: "uid", Name: "stdout"})
		require.ErrorIs(t, err, ErrNoPod, "%q", names)
	}
}

// A crowd generates objects in each directory, the oldest last.
type crowd struct {
	storage.Bucket
	objects int
}

// Each implements storage.Bucket.
func (c crowd) Each(_ context.Context, directory string, each func(storage.Object) bool) error {
	for i := range c.objects {
		if !each(storage.Object{Name: fmt.Sprintf("%032x", i), Written: time.Unix(int64(i%7), 0)}) {
			break
		}
	}
	return nil
}

// Read implements storage.Bucket.
func (c crowd) Read(_ context.Context, key string) ([]byte, error) {
	return fmt.Appendf(nil, `{"name":"stdout","start":%q}`, path.Base(path.Dir(key))), nil
}

func TestAListIsBounded(t *testing.T) {
	for objects, more := range map[int]bool{MaxListed: false, MaxListed + 1: true, 7 * MaxListed: true, maxListedObjects + 1: true, 1e6: true} {
		list, got, err := (&Store{bucket: crowd{objects: objects}}).List(t.Context(), "tenant", "pod")
		require.NoError(t, err)
		require.Equal(t, more, got)
		require.Len(t, list, MaxListed)
		for i, l := range list {
			require.True(t, i == 0 || list[i-1].Start < l.Start, "in order")
			if objects == 7*MaxListed {
				require.Equal(t, "6", fmt.Sprint(number(t, l.ID)%7), "the streams that were created last")
			}
		}
	}
}

func number(t *testing.T, hexadecimal string) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(hexadecimal, "%x", &n)
	require.NoError(t, err)
	return n
}

// A failing bucket fails in one method for keys with a prefix.
type failing struct {
	storage.Bucket
	create, read, list string
}

var errBroken = errors.New("the disk is broken")

// Create implements storage.Bucket.
func (f failing) Create(ctx context.Context, key string, content []byte) error {
	if f.create != "" && strings.HasPrefix(key, f.create) {
		return errBroken
	}
	return f.Bucket.Create(ctx, key, content)
}

// Read implements storage.Bucket.
func (f failing) Read(ctx context.Context, key string) ([]byte, error) {
	if f.read != "" && strings.HasPrefix(key, f.read) {
		return nil, errBroken
	}
	return f.Bucket.Read(ctx, key)
}

// Each implements storage.Bucket.
func (f failing) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	if f.list != "" && strings.HasPrefix(directory, f.list) {
		return errBroken
	}
	return f.Bucket.Each(ctx, directory, each)
}

// Walk implements storage.Bucket.
func (f failing) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	if f.list != "" && strings.HasPrefix(directory, f.list) {
		return errBroken
	}
	return f.Bucket.Walk(ctx, directory, after, each)
}

func TestAFailureToListIsReported(t *testing.T) {
	good := replica(t, t.TempDir())
	with := func(f failing) *Store {
		f.Bucket = good.bucket
		return newStore(f, good.key)
	}
	_, err := with(failing{create: "pods/"}).Create(t.Context(), stdout)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "listing a new stream")
	list, _, err := good.List(t.Context(), stdout.Namespace, stdout.Pod)
	require.NoError(t, err)
	require.Empty(t, list)

	id := created(t, good) // the client comes again
	for _, f := range []failing{{list: "pods/"}, {read: "streams/"}} {
		_, _, err = with(f).List(t.Context(), stdout.Namespace, stdout.Pod)
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, `listing the streams of pod "pod" in namespace "tenant"`)
	}
	list, _, err = good.List(t.Context(), stdout.Namespace, stdout.Pod)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, Listed{ID: id, Created: list[0].Created, Source: stdout}, list[0])

	require.NoError(t, good.bucket.Delete(t.Context(), directory(id)+"meta"))
	list, _, err = good.List(t.Context(), stdout.Namespace, stdout.Pod)
	require.NoError(t, err)
	require.Empty(t, list, "a stream that is being deleted isn't listed")
}

func TestABucketThatCannotBeUsedIsNoticed(t *testing.T) {
	s := replica(t, t.TempDir())
	require.NoError(t, s.Check(t.Context()))
	require.ErrorIs(t, newStore(failing{Bucket: s.bucket, read: "key"}, s.key).Check(t.Context()), errBroken)
	require.ErrorContains(t, (&Store{bucket: s.bucket, key: []byte("another")}).Check(t.Context()), `object "key" has changed`)
}
