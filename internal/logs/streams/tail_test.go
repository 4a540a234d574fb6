// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A watched bucket remembers its walks.
type watched struct {
	storage.Bucket
	walks []string
}

// Walk implements storage.Bucket.
func (w *watched) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	w.walks = append(w.walks, path.Base(directory)+" after "+after)
	return w.Bucket.Walk(ctx, directory, after, each)
}

// following runs a story of a follower that has read the first ten of a stream's bytes.
func following(t *testing.T, story func(t *testing.T, m *memory, w *watched, s *Store, id string, r *Reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := &watched{Bucket: m}
		s, err := Open(t.Context(), w)
		require.NoError(t, err)
		id := created(t, s)
		for at := range int64(10) {
			require.NoError(t, s.Write(t.Context(), id, at, []byte("x")))
		}
		r := s.Follower(id, 0)
		text, complete := drain(t, r)
		require.Equal(t, "xxxxxxxxxx", text)
		require.False(t, complete)
		time.Sleep(layoutSharedFor)
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, ErrNotYet)
		w.walks = nil
		time.Sleep(layoutSharedFor)
		story(t, m, w, s, id, r)
		time.Sleep(time.Second) // layouts are evicted
	})
}

func TestAFollowerListsOnlyWhatIsBehindItsOffset(t *testing.T) {
	following(t, func(t *testing.T, _ *memory, w *watched, s *Store, id string, r *Reader) {
		tail := "data after " + fmt.Sprintf("%016x", 10)
		_, err := r.Next(t.Context())
		require.ErrorIs(t, err, ErrNotYet)
		require.Equal(t, []string{tail}, w.walks)
		require.NoError(t, s.Write(t.Context(), id, 10, []byte("more")))
		time.Sleep(layoutSharedFor)
		text, _ := drain(t, r)
		require.Equal(t, "more", text)
		require.Equal(t, []string{tail, tail}, w.walks)
		require.NoError(t, s.End(t.Context(), id, 14))
		time.Sleep(layoutSharedFor)
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestAFollowerSeesWhatIsNotInItsTail(t *testing.T) {
	for name, test := range map[string]struct {
		comes func(t *testing.T, s *Store, id string) error
		want  string
		soon  bool
	}{
		"a marker": {func(t *testing.T, s *Store, id string) error { return s.Drop(t.Context(), id, Range{10, 13}) }, "...", false},
		"a marker, and bytes behind it": {func(t *testing.T, s *Store, id string) error {
			return errors.Join(s.Drop(t.Context(), id, Range{10, 13}), s.Write(t.Context(), id, 13, []byte("y")))
		}, "...y", true},
		"a marker, and the end": {func(t *testing.T, s *Store, id string) error {
			return errors.Join(s.Drop(t.Context(), id, Range{10, 13}), s.End(t.Context(), id, 13))
		}, "...", true},
		"bytes that begin before": {func(t *testing.T, s *Store, id string) error {
			return errors.Join(s.Write(t.Context(), id, 8, []byte("yyyy")), s.Write(t.Context(), id, 12, []byte("z")))
		}, "yyz", true},
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(t *testing.T, _ *memory, _ *watched, s *Store, id string, r *Reader) {
				require.NoError(t, test.comes(t, s, id))
				began := time.Now()
				text, _ := drain(t, r)
				for text == "" && time.Since(began) < wholeEvery {
					time.Sleep(time.Second)
					text, _ = drain(t, r)
				}
				require.Equal(t, test.want, text)
				require.Equal(t, test.soon, time.Since(began) < time.Second)
			})
		})
	}
}

func TestAFollowerFindsWhatWasJoinedAfterItsListing(t *testing.T) {
	following(t, func(t *testing.T, m *memory, _ *watched, s *Store, id string, r *Reader) {
		for at := range int64(20) {
			require.NoError(t, s.Write(t.Context(), id, 10+at, []byte("y")))
		}
		part, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, "y", string(part.Data))
		tidy(t, m, s, id)
		require.Zero(t, m.count(directory(id)+"data"))
		text, _ := drain(t, r)
		require.Equal(t, "yyyyyyyyyyyyyyyyyyy", text)
	})
}

func TestWhatIsMissingBehindAFollowersOffsetIsWaitedFor(t *testing.T) {
	following(t, func(t *testing.T, _ *memory, _ *watched, s *Store, id string, r *Reader) {
		require.NoError(t, s.Write(t.Context(), id, 13, []byte("z")))
		text, _ := drain(t, r)
		require.Empty(t, text, "it may still come")
		require.NoError(t, s.Write(t.Context(), id, 10, []byte("abc")))
		time.Sleep(layoutSharedFor)
		text, _ = drain(t, r)
		require.Equal(t, "abcz", text)
	})
}
