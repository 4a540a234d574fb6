// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter is the longest wait that a registry can impose.
const maxRetryAfter = time.Minute

// newTooManyRequestsError makes "429 Too Many Requests" final, because an immediate retry
// would add to the load. The error contains the time of the next request.
func newTooManyRequestsError(resp *http.Response) error {
	_ = resp.Body.Close()
	return &tooManyRequestsError{after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// retryAfter parses the Retry-After header (RFC 9110, section 10.2.3): seconds, or a
// date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return min(max(0, time.Duration(seconds)*time.Second), maxRetryAfter)
	}
	if date, err := http.ParseTime(header); err == nil {
		return min(max(0, date.Sub(now)), maxRetryAfter)
	}
	return 0
}

type tooManyRequestsError struct{ after time.Duration }

func (e *tooManyRequestsError) Error() string {
	said := fmt.Sprintf("the registry answered %d %s", http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests))
	if e.after > 0 {
		said += fmt.Sprintf(" and asks to wait %v", e.after.Round(time.Second))
	}
	return said
}
