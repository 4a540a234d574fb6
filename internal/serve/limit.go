// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBody is the longest body that knative.dev/pkg's webhooks read, in bytes.
	maxBody = 3 << 20
	// longBody is more than the length of usual pods: Tekton's are some 20 KiB.
	longBody = 128 << 10
)

// LimitLongBodies makes requests with long bodies wait while the sum of those under way
// exceeds total bytes: a pod takes some ten times its length in memory while it is
// decoded, copied and compared. Requests with short bodies don't wait, because the time
// that a pod takes may be its author's choice; the API server's flow control limits their
// number.
func LimitLongBodies(next http.Handler, total int64) http.Handler {
	room := semaphore.NewWeighted(total)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length := r.ContentLength
		if length < 0 || length > maxBody {
			length = maxBody // the limit of what is read
		}
		if length <= longBody {
			next.ServeHTTP(w, r)
			return
		}
		length = min(length, total)
		if err := room.Acquire(r.Context(), length); err != nil {
			http.Error(w, "waiting for other requests to be answered: the client gave up", http.StatusServiceUnavailable)
			return
		}
		defer room.Release(length)
		next.ServeHTTP(w, r)
	})
}
