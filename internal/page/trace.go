// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

const (
	// tracesPatience is how long the log service may take to say where traces are.
	tracesPatience = 5 * time.Second
	// tracesKept is how long its answer counts, also that it gives none.
	tracesKept = time.Minute
)

// A keptTemplate is what the log service has said of where traces are.
type keptTemplate struct {
	mu       sync.Mutex
	template tracelink.Template
	until    time.Time
}

// traces returns where the traces of pods are. The log service is asked if one of them has a
// trace, and without its answer, there are no links.
func (s *server) traces(q question, pods []timeline.Pod) tracelink.Template {
	isTraced := slices.ContainsFunc(pods, func(p timeline.Pod) bool { return p.TraceID != "" })
	if s.Traces != (tracelink.Template{}) || !isTraced {
		return s.Traces
	}
	s.found.mu.Lock()
	defer s.found.mu.Unlock()
	if now := time.Now(); now.After(s.found.until) {
		ctx, cancel := context.WithTimeout(q.Context(), tracesPatience)
		defer cancel()
		client := &logreader.Client{REST: q.client.REST, Namespace: q.client.Namespace}
		s.found.template, _ = client.Traces(ctx)
		if q.Context().Err() == nil { // the browser has waited for the answer
			s.found.until = now.Add(tracesKept)
		}
	}
	return s.found.template
}

// traceLink returns a link to a trace, nil if its id isn't known, or where traces are.
func (v *runView) traceLink(id string) *link {
	address := v.traces.Address(id)
	if address == "" {
		return nil
	}
	return &link{"Trace at " + v.traces.Host(), address}
}

// traceOfAll returns a link to the trace of pods that all have the same. Pods without a trace
// don't count.
func (v *runView) traceOfAll(pods []timeline.Pod) *link {
	id := ""
	for _, p := range pods {
		if p.TraceID != "" && id != "" && p.TraceID != id {
			return nil
		}
		if p.TraceID != "" {
			id = p.TraceID
		}
	}
	return v.traceLink(id)
}
