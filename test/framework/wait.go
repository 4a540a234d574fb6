// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pause lies between two tries.
const pause = 200 * time.Millisecond

// Eventually tries until it succeeds. When time is up, or waiting longer is of
// no use (see [Permanent]), the error says what was awaited, and the last try's.
func Eventually(ctx context.Context, within time.Duration, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	start := time.Now()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		// A try that was cut short knows less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if final, ok := errors.AsType[*permanentError](err); ok {
			return fmt.Errorf("waiting for %s: gave up after %v: %w", what, since(start), final.error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: time was up after %v: %w", what, since(start), last)
		case <-time.After(pause):
		}
	}
}

// Permanent is for tries that find out that the next one can't do better.
func Permanent(err error) error { return &permanentError{err} }

type permanentError struct{ error }

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Millisecond) }
