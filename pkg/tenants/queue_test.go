// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

func TestAFloodOfOneTenantDelaysTheWorkOfAnotherByOnePieceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		queue := tenants.NewQueue[string](100, 50)
		for i := range 10_000 {
			dropped, full := queue.Add("flood", fmt.Sprint("flood-", i))
			require.Equal(t, i >= 50, full)
			if full {
				require.Equal(t, fmt.Sprint("flood-", i), dropped)
			}
		}
		var mu sync.Mutex
		var done []string
		ended := make(chan struct{})
		go func() {
			queue.Do(ctx, 1, func(_ context.Context, work string) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				done = append(done, work)
			})
			close(ended)
		}()
		time.Sleep(1500 * time.Millisecond) // in the middle of its second piece
		_, full := queue.Add("modest", "modest")
		require.False(t, full)
		time.Sleep(1600 * time.Millisecond)
		mu.Lock()
		require.Equal(t, []string{"flood-0", "flood-1", "modest"}, done)
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		require.Len(t, done, 51)
		require.Equal(t, "flood-49", done[50], "in order")
		mu.Unlock()
		require.Zero(t, queue.Len())
		stop()
		<-ended
	})
}

func TestWorkThatTakesLongTakesOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		queue := tenants.NewQueue[string](100, 50)
		for range 50 {
			_, full := queue.Add("slow", "slow")
			require.False(t, full)
		}
		quick := 0
		ended := make(chan struct{})
		go func() {
			queue.Do(ctx, 2, func(ctx context.Context, work string) {
				if work == "slow" {
					<-ctx.Done()
					return
				}
				quick++
			})
			close(ended)
		}()
		for range 1000 {
			_, full := queue.Add("quick", "quick")
			require.False(t, full)
			synctest.Wait()
		}
		require.Equal(t, 1000, quick)
		stop()
		<-ended
		require.Equal(t, 49, queue.Len(), "what wasn't begun")
	})
}

func TestAFullQueueDropsTheNewestOfTheTenantThatHasMost(t *testing.T) {
	queue := tenants.NewQueue[string](10, 6)
	add := func(tenant string, i int) string {
		dropped, full := queue.Add(tenant, fmt.Sprint(tenant, i))
		if !full {
			return ""
		}
		return dropped
	}
	for i := range 6 {
		require.Empty(t, add("a", i))
	}
	for i := range 4 {
		require.Empty(t, add("b", i))
	}
	require.Equal(t, "a5", add("c", 0))
	require.Equal(t, "b4", add("b", 4), "it would have most")
	require.Equal(t, "a4", add("c", 1))
	require.Equal(t, "a6", add("a", 6))
	require.Equal(t, 10, queue.Len())

	queue = tenants.NewQueue[string](3, 3)
	for _, tenant := range []string{"a", "b", "c"} {
		require.Empty(t, add(tenant, 0))
	}
	require.Equal(t, "d0", add("d", 0), "nobody has more than one")
}

func TestAQueueForgetsTenantsWithoutWork(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	queue := tenants.NewQueue[int](1000, 1)
	var done sync.WaitGroup
	ended := make(chan struct{})
	go func() {
		queue.Do(ctx, 8, func(context.Context, int) { done.Done() })
		close(ended)
	}()
	var adding sync.WaitGroup
	for i := range 1000 {
		done.Add(1)
		adding.Go(func() {
			if _, full := queue.Add(fmt.Sprint(i), i); full {
				done.Done()
			}
		})
	}
	adding.Wait()
	done.Wait()
	stop()
	<-ended
	require.Zero(t, queue.Len())
}

func TestEachTenantHasARateOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := tenants.NewRates(time.Minute, 10)
		accepted := func(tenant string, tries int) (n int) {
			for range tries {
				if rates.Accept(tenant) {
					n++
				}
			}
			return n
		}
		require.Equal(t, 10, accepted("a", 1000))
		require.Equal(t, 1, accepted("b", 1))
		time.Sleep(3 * time.Minute)
		require.Equal(t, 3, accepted("a", 1000))
		require.Equal(t, 10, accepted("b", 1000))
		for i := range 10_000 {
			require.Equal(t, 1, accepted(fmt.Sprint(i), 1))
		}
		require.Equal(t, 0, accepted("a", 1), "though others came")
		time.Sleep(time.Hour)
		require.Equal(t, 10, accepted("a", 1000), "no more than a burst")
	})
}
