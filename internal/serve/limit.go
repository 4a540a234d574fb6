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
	// longBody is longer than that of a pod that somebody wrote: those of Tekton
	// are some 20 KiB.
	longBody = 128 << 10
)

// LimitLongBodies has requests with long bodies wait while those under way are
// longer than total bytes together: a pod takes some ten times its length while
// it is decoded, copied and compared. Of short ones, the API server sends no more
// than its own flow control lets through, and they wait for nobody: the time
// that a pod takes may be its author's choice.
func LimitLongBodies(next http.Handler, total int64) http.Handler {
	room := semaphore.NewWeighted(total)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length := r.ContentLength
		if length < 0 || length > maxBody {
			length = maxBody // more isn't read
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
