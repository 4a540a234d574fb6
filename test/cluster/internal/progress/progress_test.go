// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errMissing = errors.New("a deployment is missing")

func TestWaitUntilReady(t *testing.T) {
	asked := 0
	err := Wait(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		if asked++; asked < 3 {
			return errMissing
		}
		return nil
	})
	if err != nil || asked != 3 {
		t.Errorf("Wait: asked %d times, then %v", asked, err)
	}
}

// The error says what was missing, not that asking was cut short.
func TestWaitSaysWhatWasMissing(t *testing.T) {
	asked := 0
	err := Wait(t.Context(), 20*time.Millisecond, time.Millisecond, func(ctx context.Context) error {
		if asked++; asked == 1 {
			return errMissing
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, errMissing) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: got %v, want what was missing", err)
	}
}

func TestWaitGivesUp(t *testing.T) {
	asked := 0
	err := Wait(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		asked++
		return Final(errMissing)
	})
	if !errors.Is(err, errMissing) || asked != 1 {
		t.Errorf("Wait: asked %d times, then %v; want to give up at once", asked, err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Wait(ctx, time.Minute, time.Millisecond, func(context.Context) error {
		cancel()
		return errMissing
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: got %v, want context.Canceled", err)
	}
}

func TestWithLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "component.log")
	if err := os.WriteFile(log, []byte(strings.Repeat("early\n", 30)+strings.Repeat("late\n", 20)), 0o644); err != nil {
		t.Fatal(err)
	}
	err := WithLog(errMissing, log)
	if text := err.Error(); !errors.Is(err, errMissing) || !strings.Contains(text, log) ||
		strings.Count(text, "late") != 20 || strings.Contains(text, "early") {
		t.Errorf("WithLog: got %v", err)
	}
	if WithLog(nil, log) != nil {
		t.Error("WithLog made an error of none")
	}
}
