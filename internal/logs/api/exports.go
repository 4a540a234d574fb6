// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/entrypointer/entrypointer/internal/logs/streams"

// Exports send on what is stored. They don't wait.
type Exports interface {
	// Wrote says that bytes of a stream up to an offset were stored, or marked as dropped, or
	// that this is its length.
	Wrote(id string, source streams.Source, to int64)
}

// noExports is the absence of exports.
type noExports struct{}

func (noExports) Wrote(string, streams.Source, int64) {}

// Export sets the exports. It must be called before the first request.
func (s *Server) Export(exports Exports) { s.exports = exports }
