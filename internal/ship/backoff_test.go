// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
)

func TestRetryAfterIsSecondsOrADateAndNeverTooLong(t *testing.T) {
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"30":                            30 * time.Second,
		"60":                            30 * time.Second,
		"31536000":                      30 * time.Second,
		"99999999999999999999999999":    30 * time.Second,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"Sun, 22 Nov 2026 20:00:30 GMT": 30 * time.Second,
		"Sun, 22 Nov 2026 19:00:00 GMT": 0,
		"Mon, 22 Nov 2027 20:00:00 GMT": 30 * time.Second,
	} {
		require.Equal(t, want, parseRetryAfter(value, now), value)
	}
}

func TestPausesDoubleUnlessTheServiceAsksForOne(t *testing.T) {
	var b backoff
	within := func(want time.Duration, err error) {
		t.Helper()
		got := b.pauseAfter(err)
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, got, want+want/4)
	}
	failed := errors.New("connection refused")
	for _, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		within(want, failed)
	}
	within(3*time.Second, fmt.Errorf("sending: %w", &retryError{wait: 3 * time.Second}))
	b.reset()
	within(250*time.Millisecond, failed)
}

// The service reports bytes as missing when their second request must have ended.
func TestNoPauseIsLongerThanTheServiceWaits(t *testing.T) {
	var b backoff
	for _, err := range []error{errors.New("connection refused"), &retryError{wait: parseRetryAfter("3600", time.Now())}} {
		for range 1000 {
			require.LessOrEqual(t, retries.RequestTimeout+b.pauseAfter(err)+retries.RequestTimeout, retries.Late)
		}
	}
}

func TestTheResponseDecidesWhetherToRetry(t *testing.T) {
	for code, want := range map[int]error{
		http.StatusOK: nil, http.StatusAccepted: nil,
		http.StatusNotFound:   errNoStream,
		http.StatusBadRequest: errRefused, http.StatusConflict: errRefused, http.StatusRequestEntityTooLarge: errRefused,
		http.StatusUnauthorized: &retryError{}, http.StatusForbidden: &retryError{}, http.StatusRequestTimeout: &retryError{}, http.StatusTooManyRequests: &retryError{},
		http.StatusFound: &retryError{}, http.StatusInternalServerError: &retryError{}, http.StatusServiceUnavailable: &retryError{},
	} {
		err := (&client{}).statusError(&http.Response{StatusCode: code, Status: fmt.Sprint(code)}, []byte("why"))
		if _, is := errors.AsType[*retryError](want); is {
			var asked *retryError
			require.ErrorAs(t, err, &asked)
			continue
		}
		require.ErrorIs(t, err, want)
	}
}
