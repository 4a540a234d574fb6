// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// waiting has all peers wait at the same time. It watches them idle, and then
// sends them signals.
func waiting(ctx context.Context, peers []*peer, child string, turns int, idle time.Duration) (
	signals map[*peer][]time.Duration, waits map[*peer]framework.Usage, err error,
) {
	all := make(map[*peer]*running)
	defer func() {
		for _, r := range all {
			_, e := r.end()
			err = errors.Join(err, e)
		}
	}()
	for _, p := range peers {
		if all[p], err = begin(p, child); err != nil {
			delete(all, p)
			return nil, nil, fmt.Errorf("starting a child under %s: %w", p.name, err)
		}
	}
	if waits, err = watch(ctx, all, idle); err != nil {
		return nil, nil, err
	}
	signals, err = takeTurns(ctx, peers, turns, func(p *peer) (time.Duration, error) { return all[p].signal() })
	return signals, waits, err
}

// watch looks at each process before and after a while in which nothing happens.
func watch(ctx context.Context, all map[*peer]*running, idle time.Duration) (map[*peer]framework.Usage, error) {
	look := func() (map[*peer]framework.Usage, error) {
		seen := make(map[*peer]framework.Usage)
		for p, r := range all {
			w, err := framework.UsageOf(r.pid)
			if err != nil {
				return nil, fmt.Errorf("looking at %s: %w", p.name, err)
			}
			seen[p] = w
		}
		return seen, nil
	}
	pause(ctx, 2*time.Second) // until runtimes have noticed that there is nothing to do
	before, err := look()
	if err != nil {
		return nil, err
	}
	pause(ctx, idle)
	after, err := look()
	for p, w := range after {
		w.Wakeups -= before[p].Wakeups
		w.CPU -= before[p].CPU
		after[p] = w
	}
	return after, errors.Join(err, ctx.Err())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
