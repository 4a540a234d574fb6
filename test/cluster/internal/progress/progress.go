// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a person what takes long, as it happens, and what the
// log said when it failed.
package progress

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Steps shorter than this are over before anyone asks.
const short = 2 * time.Second

// A person who waits for longer wonders what for.
const reminder = 30 * time.Second

// Printf prints one line on standard error.
func Printf(format string, args ...any) {
	terminal.print(time.Now().Format(time.TimeOnly) + "  " + fmt.Sprintf(format, args...))
}

// Step says what it does, does it, and says how long that took. Its error
// begins with what.
func Step(what string, do func() error) error {
	Printf("%s", what)
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if took := time.Since(start); took > short {
		Printf("%s: done in %s", what, took.Round(time.Second))
	}
	return nil
}

// final is an error that waiting longer doesn't cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final makes Wait give up.
func Final(err error) error { return final{err} }

// Wait asks ready, at an interval, until it returns nil or a Final error. Now
// and then it says what ready missed last; after the limit, that is the error.
func Wait(ctx context.Context, limit, interval time.Duration, ready func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick, remind := time.NewTicker(interval), time.NewTicker(reminder)
	defer tick.Stop()
	defer remind.Stop()
	missing := errors.New("nothing was asked yet")
	for {
		switch now := ready(limited); {
		case now == nil:
			return nil
		case errors.As(now, &final{}):
			return now
		case limited.Err() == nil: // else it was cut short
			missing = now
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not ready after %s: %w", limit, missing)
		case <-remind.C:
			Printf("still waiting: %v", missing)
		case <-tick.C:
		}
	}
}

// WithLog adds the last 20 lines of a log to an error, and where the rest is.
func WithLog(err error, path string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nthe last lines of %s:\n%s", err, path, tail(path, 20))
}

func tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "    (" + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
