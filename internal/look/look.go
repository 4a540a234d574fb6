// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package look looks now and then whether an optional part of the installation is
// there. A watch of what isn't would be refused, and tried again and again.
package look

import (
	"context"
	"time"
)

// Interval is how often the injector looks.
const Interval = 10 * time.Second

// Again looks after each interval, and whenever somebody sends to sooner, until ctx is
// done. Nil has nobody send.
func Again(ctx context.Context, interval time.Duration, sooner <-chan struct{}, look func(context.Context)) {
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
