// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import "github.com/entrypointer/entrypointer/internal/timeline"

// traceLink returns a link to a trace, nil if its id isn't known, or if the operator hasn't said
// where traces are.
func (s *server) traceLink(id string) *link {
	address := s.Traces.Address(id)
	if address == "" {
		return nil
	}
	return &link{"Trace at " + s.Traces.Host(), address}
}

// traceOfAll returns a link to the trace of pods that all have the same. Pods without a trace
// don't count.
func (s *server) traceOfAll(pods []timeline.Pod) *link {
	id := ""
	for _, p := range pods {
		if p.TraceID != "" && id != "" && p.TraceID != id {
			return nil
		}
		if p.TraceID != "" {
			id = p.TraceID
		}
	}
	return s.traceLink(id)
}
