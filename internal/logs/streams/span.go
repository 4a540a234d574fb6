// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A Span is a span of time, from Since on and up to Until, exclusive. A bound that is zero is
// none.
type Span struct{ Since, Until time.Time }

// IsAll reports whether the span has no bounds.
func (s Span) IsAll() bool { return s.Since.IsZero() && s.Until.IsZero() }

// begins reports whether a time, in Unix milliseconds, is in the span or after it.
func (s Span) begins(at int64) bool { return s.Since.IsZero() || at >= s.Since.UnixMilli() }

// isOver reports whether a time, in Unix milliseconds, is after the span.
func (s Span) isOver(at int64) bool { return !s.Until.IsZero() && at >= s.Until.UnixMilli() }

// Has reports whether a time, in Unix milliseconds, is in the span.
func (s Span) Has(at int64) bool { return s.begins(at) && !s.isOver(at) }

// mayHave reports whether an object that was written at a time may have lines of the span:
// those were printed before.
func (s Span) mayHave(written time.Time) bool {
	return s.Since.IsZero() || !written.Add(skewTolerance).Before(s.Since)
}

// hasAny reports whether an object was written in the span.
func (s Span) hasAny(objects []storage.Object) bool {
	return slices.ContainsFunc(objects, func(o storage.Object) bool {
		at := o.Written.UnixMilli()
		return s.begins(at) && !s.isOver(at)
	})
}
