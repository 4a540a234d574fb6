// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// lookups is a Lookuper with a prepared answer, for tests of its distribution.
type lookups func(context.Context, lookup.Query) (*lookup.Image, error)

func (l lookups) Lookup(ctx context.Context, query lookup.Query) (*lookup.Image, error) {
	return l(ctx, query)
}

func TestAThousandPodsOfOneImageAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		remembered := lookup.Remember(lookups(func(context.Context, lookup.Query) (*lookup.Image, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return &lookup.Image{Digest: "d"}, nil
		}), 3*time.Second)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				image, err := remembered.Lookup(t.Context(), lookup.Query{Image: "new"})
				if err != nil || image.Digest != "d" {
					t.Errorf("Lookup() = %v, %v", image, err)
				}
			})
		}
		all.Wait()
		require.Equal(t, int64(1), asked.Load())
	})
}

func TestAnswersAreRememberedForTheSameAskerForSeconds(t *testing.T) {
	var asked atomic.Int64
	remembered := lookup.Remember(lookups(func(context.Context, lookup.Query) (*lookup.Image, error) {
		asked.Add(1)
		return &lookup.Image{}, nil
	}), time.Second)
	ask := func(query lookup.Query) {
		_, err := remembered.Lookup(t.Context(), query)
		require.NoError(t, err)
	}
	ask(lookup.Query{Image: "i", Namespace: "a"})
	ask(lookup.Query{Image: "i", Namespace: "a"})
	require.Equal(t, int64(1), asked.Load())
	for _, other := range []lookup.Query{
		{Image: "i", Namespace: "b"},
		{Image: "i", Namespace: "a", ServiceAccount: "s"},
		{Image: "i", Namespace: "a", PullSecrets: []string{"s"}},
	} {
		before := asked.Load()
		ask(other)
		require.Equal(t, before+1, asked.Load(), "%+v is another asker", other)
	}
}

func TestTimeoutsAreNotRemembered(t *testing.T) {
	for _, test := range []struct {
		reason lookup.Reason
		asked  int64
	}{{lookup.NotFound, 1}, {lookup.Timeout, 2}} {
		var asked atomic.Int64
		remembered := lookup.Remember(lookups(func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
			asked.Add(1)
			return nil, &lookup.Error{Query: query, Reason: test.reason, Err: errors.New("no")}
		}), time.Second)
		for range 2 {
			_, err := remembered.Lookup(t.Context(), lookup.Query{Image: "i"})
			registrytest.RequireReason(t, err, test.reason)
		}
		require.Equal(t, test.asked, asked.Load(), test.reason)
	}
}

func TestARegistryIsNotAskedBeforeItWantsToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		remembered := lookup.Remember(lookups(func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
			asked++
			return nil, &lookup.Error{Query: query, Reason: lookup.TooManyRequests, Err: errors.New("no"), RetryAfter: 30 * time.Second}
		}), time.Second)
		for _, wait := range []time.Duration{0, 29 * time.Second, 2 * time.Second} {
			time.Sleep(wait)
			_, err := remembered.Lookup(t.Context(), lookup.Query{Image: "i"})
			registrytest.RequireReason(t, err, lookup.TooManyRequests)
		}
		require.Equal(t, 2, asked)
	})
}

func TestACallerThatGivesUpDoesNotEndTheQueryOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remembered := lookup.Remember(lookups(func(ctx context.Context, _ lookup.Query) (*lookup.Image, error) {
			select {
			case <-time.After(2 * time.Second):
				return &lookup.Image{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}), 3*time.Second)
		var both sync.WaitGroup
		both.Go(func() {
			impatient, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := remembered.Lookup(impatient, lookup.Query{Image: "i"})
			var failure *lookup.Error
			if !errors.As(err, &failure) || failure.Reason != lookup.Timeout {
				t.Errorf("Lookup() = %v, want a timeout", err)
			}
		})
		both.Go(func() {
			time.Sleep(500 * time.Millisecond)
			if _, err := remembered.Lookup(t.Context(), lookup.Query{Image: "i"}); err != nil {
				t.Errorf("Lookup() = %v", err)
			}
		})
		both.Wait()
	})
}

func TestAQueryEndsWithTheLastCallerThatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		remembered := lookup.Remember(lookups(func(ctx context.Context, _ lookup.Query) (*lookup.Image, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}), time.Hour)
		var all sync.WaitGroup
		for seconds := 1; seconds <= 3; seconds++ { // none gives up before the last has asked
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
				defer cancel()
				_, err := remembered.Lookup(ctx, lookup.Query{Image: "i"})
				if err == nil {
					t.Error("Lookup() succeeded")
				}
			})
		}
		start := time.Now()
		<-ended
		require.Equal(t, 3*time.Second, time.Since(start))
		all.Wait()
	})
}
