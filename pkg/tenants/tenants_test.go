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
			release, err := shares.Acquire(t.Context(), "greedy", 1)
			require.NoError(t, err)
			greedy = append(greedy, release)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := shares.Acquire(soon, "greedy", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		for i := range 3 { // the rest of it, to tenants that want more than their share
			_, err := shares.Acquire(t.Context(), fmt.Sprint("tenant-", i), 100)
			require.NoError(t, err)
		}
		full, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(full, "late", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		greedy[0]()
		greedy[0]() // a second time changes nothing
		_, err = shares.Acquire(t.Context(), "late", 1)
		require.NoError(t, err)
		full, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = shares.Acquire(full, "late", 1)
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
			if release, err := shares.Acquire(ctx, fmt.Sprint(i%10), int64(1+i%2)); err == nil {
				release()
			}
		})
	}
	all.Wait()
	for _, tenant := range []string{"a", "b"} {
		_, err := shares.Acquire(t.Context(), tenant, 2)
		require.NoError(t, err)
	}
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
