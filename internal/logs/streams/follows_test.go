// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// requireFollowed checks what a replica says of a stream.
func requireFollowed(t *testing.T, store *Store, id string, want bool) {
	t.Helper()
	is, err := store.IsFollowed(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, want, is)
}

func TestAllReplicasSoonKnowWhatIsFollowed(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, other := replica(t, directory), replica(t, directory)
		id, quiet := created(t, one), strings.Repeat("0", 32)
		requireFollowed(t, other, id, false)
		require.NoError(t, one.NoteFollower(t.Context(), id))
		requireFollowed(t, one, id, true)
		time.Sleep(followsTTL)
		requireFollowed(t, other, id, true)
		requireFollowed(t, other, quiet, false)
		for range 5 {
			time.Sleep(followSlot)
			require.NoError(t, one.NoteFollower(t.Context(), id))
			requireFollowed(t, other, id, true)
			require.NoError(t, other.ForgetFollowers(t.Context()))
		}
		signs, err := os.ReadDir(filepath.Join(directory, followed))
		require.NoError(t, err)
		require.LessOrEqual(t, len(signs), followedFor+1, "old ones are deleted")

		time.Sleep((followedFor + 1) * followSlot) // the follower has gone
		requireFollowed(t, one, id, false)
		requireFollowed(t, other, id, false)
		require.NoError(t, other.ForgetFollowers(t.Context()))
		require.NoDirExists(t, filepath.Join(directory, followed))
	})
}

func TestWhileFollowersArentKnownThereMayBeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &unlistable{Bucket: bucket(t, t.TempDir())}
		store, err := Open(t.Context(), bucket)
		require.NoError(t, err)
		id := created(t, store)
		bucket.fails = true
		for range 2 {
			_, err := store.IsFollowed(t.Context(), id)
			require.ErrorIs(t, err, errUnlistable)
		}
		bucket.fails = false
		time.Sleep(followsTTL)
		requireFollowed(t, store, id, false)
	})
}

var errUnlistable = errors.New("no listing today")

// An unlistable bucket can fail to list.
type unlistable struct {
	storage.Bucket
	fails bool
}

// Each implements storage.Bucket.
func (u *unlistable) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	if u.fails {
		return errUnlistable
	}
	return u.Bucket.Each(ctx, directory, each)
}
