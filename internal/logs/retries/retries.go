// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package retries has the bounds within which the shipper sends, and repeats a request. The
// log service derives from them for how long bytes may still come.
package retries

import "time"

const (
	// RequestTimeout bounds a request with its response.
	RequestTimeout = 20 * time.Second
	// LongestPause bounds the pause that a client chooses itself.
	LongestPause = 10 * time.Second
	// LongestRetryAfter bounds the pause that the service can ask for.
	LongestRetryAfter = 30 * time.Second
	// JitterShare is the share of a pause by which it can be longer at random: a quarter.
	JitterShare = 4
)

// LingerHeader is the header of a response by which the service lets the shipper wait
// between two parts of a stream, in seconds: nobody follows it.
const LingerHeader = "Entrypointer-Linger"

// The bounds of that time. Without the header, it is the shortest one.
const (
	ShortestLinger = 250 * time.Millisecond
	LongestLinger  = 30 * time.Second
)

// Late is how long after later bytes the bytes before them may come, if their first
// request has failed, and the second hasn't. Both requests were sent before the later
// bytes were answered, or at most one pause later.
const Late = RequestTimeout + LongestRetryAfter + LongestRetryAfter/JitterShare + RequestTimeout
