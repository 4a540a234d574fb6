// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package optionalpart periodically checks whether an optional part of the installation is
// present. The API server would refuse a watch of an absent part, again and again.
package optionalpart

import (
	"context"
	"time"
)

// Interval is the time between two checks.
const Interval = 10 * time.Second

// Every calls look after each interval, and when sooner has a value, until ctx is
// done. sooner may be nil.
func Every(ctx context.Context, interval time.Duration, sooner <-chan struct{}, look func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-sooner:
		}
		look(ctx)
	}
}
