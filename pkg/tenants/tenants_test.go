// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tenants_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

func TestATenantThatUsesItsShareUpWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := tenants.NewShares(8, 2)
		var greedy []func()
		for range 2 {
			release, err := shares.Acquire(t.Context(), 1, "greedy")
			require.NoError(t, err)
			greedy = append(greedy, release)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := shares.Acquire(soon, 1, "greedy")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		for i := range 3 { // the rest of it, to tenants that want more than their share
			_, err := shares.Acquire(t.Context(), 100, fmt.Sprint("tenant-", i))
			require.NoError(t, err)
		}
		full, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(full, 1, "late")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		greedy[0]()
		greedy[0]() // a second time changes nothing
		_, err = shares.Acquire(t.Context(), 1, "late")
		require.NoError(t, err)
		full, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(full, 1, "late")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestReleasedSharesAreAvailableAgain(t *testing.T) {
	shares := tenants.NewShares(4, 2)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				cancel()
			}
			defer cancel()
			if release, err := shares.Acquire(ctx, int64(1+i%2), fmt.Sprint(i%10)); err == nil {
				release()
			}
		})
	}
	all.Wait()
	for _, tenant := range []string{"a", "b"} {
		_, err := shares.Acquire(t.Context(), 2, tenant)
		require.NoError(t, err)
	}
}

func TestNoHolderTakesMoreThanItsShareAtAnyLevel(t *testing.T) {
	shares := tenants.NewShares(10, 6, 4)
	require.True(t, shares.TryAcquire(4, "tenant", "a"))
	require.False(t, shares.TryAcquire(1, "tenant", "a"), "the pod's share is used up")
	require.True(t, shares.TryAcquire(2, "tenant", "b"))
	require.False(t, shares.TryAcquire(1, "tenant", "c"), "the namespace's share is used up")
	require.True(t, shares.TryAcquire(4, "b", "tenant"), "a holder is known by its name and its level")
	require.False(t, shares.TryAcquire(1, "third", "d"), "nothing is left")
	require.False(t, shares.TryAcquire(5, "third", "d"), "more than a share")
	require.Equal(t, int64(10), shares.InUse())

	shares.Release(3, "tenant", "a")
	shares.Release(1, "tenant", "a")
	require.True(t, shares.TryAcquire(3, "tenant", "c"))
	shares.Release(0, "nobody", "none")
	shares.Release(3, "tenant", "c")
	shares.Release(2, "tenant", "b")
	shares.Release(4, "b", "tenant")
	require.Zero(t, shares.InUse())
	require.True(t, shares.TryAcquire(4, "tenant", "a"), "nothing was lost")
}

func TestAHolderWaitsAtItsOwnExpense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := tenants.NewShares(8, 6, 2)
		release, err := shares.Acquire(t.Context(), 100, "tenant", "a")
		require.NoError(t, err)
		require.Equal(t, int64(2), shares.InUse(), "a whole share of the smallest")
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(soon, 1, "tenant", "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, pod := range []string{"b", "c"} {
			_, err = shares.Acquire(t.Context(), 2, "tenant", pod)
			require.NoError(t, err)
		}
		soon, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(soon, 1, "tenant", "d")
		require.ErrorIs(t, err, context.DeadlineExceeded, "the namespace's share is used up")
		require.True(t, shares.TryAcquire(2, "other", "e"))
		release()
		require.True(t, shares.TryAcquire(2, "tenant", "d"))
	})
}

func TestATenantThatKeepsMuchLosesItsOwnOldestValues(t *testing.T) {
	cache := tenants.NewCache[string](64<<10, 16<<10)
	cache.Add("modest", "theirs", "value", 1, time.Hour)
	for i := range 100 {
		cache.Add("greedy", fmt.Sprint(i), "value", 1<<10, time.Hour)
		_, ok := cache.Get("0")
		require.True(t, ok, "what is used stays")
	}
	_, ok := cache.Get("theirs")
	require.True(t, ok)
	_, ok = cache.Get("1")
	require.False(t, ok)
	_, ok = cache.Get("99")
	require.True(t, ok)
	cache.Add("greedy", "huge", strings.Repeat("x", 32<<10), 32<<10, time.Hour)
	_, ok = cache.Get("huge")
	require.False(t, ok, "it is more than a share")
}

func TestManyTenantsKeepNoMoreThanThereIsRoomFor(t *testing.T) {
	cache := tenants.NewCache[int](64<<10, 16<<10)
	cache.Add("modest", "theirs", 1, 1, time.Hour)
	for tenant := range 20 {
		for i := range 20 {
			cache.Add(fmt.Sprint("greedy-", tenant), fmt.Sprint(tenant, i), 1, 1<<10, time.Hour)
		}
	}
	kept := 0
	for tenant := range 20 {
		for i := range 20 {
			if _, ok := cache.Get(fmt.Sprint(tenant, i)); ok {
				kept++
			}
		}
	}
	require.Less(t, kept, 64)
	require.Greater(t, kept, 30)
	_, ok := cache.Get("theirs")
	require.True(t, ok, "those who keep most lose first")
}

func TestValuesExpireAndAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := tenants.NewCache[string](1<<20, 1<<20)
		cache.Add("a", "key", "old", 1, time.Minute)
		cache.Add("b", "key", "new", 1, time.Hour)
		time.Sleep(2 * time.Minute)
		got, ok := cache.Get("key")
		require.True(t, ok)
		require.Equal(t, "new", got)
		time.Sleep(time.Hour)
		_, ok = cache.Get("key")
		require.False(t, ok)
	})
}
