// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A run is one run of a container. All of its streams have the same start.
type run struct{ podUID, container, start string }

func (s Stream) run() run { return run{s.PodUID, s.Container, s.Start} }

// previous returns, of streams in the order of their starts, those of the run of each
// container before its last one.
func (c *Client) previous(ctx context.Context, o Options, all []Stream) ([]Stream, error) {
	pods, err := c.existing(ctx, o)
	switch {
	case apierrors.IsForbidden(err):
		_, _ = fmt.Fprintln(o.Warnings, "Without the right to get pods, it is unknown which run is the last one: of those that have printed something, the last but one follows.")
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("asking for the pods of %s: %w", o.whose(), err)
	}
	type container struct{ pod, name string }
	runs := map[container][]Stream{} // one stream of each run
	for _, s := range all {
		of := container{s.Pod, s.Container}
		if !slices.ContainsFunc(runs[of], func(known Stream) bool { return known.run() == s.run() }) {
			runs[of] = append(runs[of], s)
		}
	}
	chosen := map[run]bool{}
	for of, known := range runs {
		var p *podObject
		if at := slices.IndexFunc(pods, func(p podObject) bool { return p.Metadata.Name == of.pod }); at >= 0 {
			p = &pods[at]
		}
		if s, found := previousOf(known, p, of.name); found {
			chosen[s.run()] = true
		}
	}
	return slices.DeleteFunc(all, func(s Stream) bool { return !chosen[s.run()] }), nil
}

// previousOf returns a stream of the run before the last one of a container. The pod is nil if
// it is gone, or if the user may not get it.
func previousOf(runs []Stream, p *podObject, container string) (s Stream, found bool) {
	if p == nil {
		// The log service has something of each run that has ended.
		if len(runs) < 2 {
			return s, false
		}
		return runs[len(runs)-2], true
	}
	// A run that has printed nothing yet has no streams, so the kubelet says which one is the
	// last.
	ended := p.endedRuns()
	at := slices.IndexFunc(ended, func(r endedRun) bool { return r.isPrevious && r.container == container })
	if at < 0 {
		// The first run of a pod comes after those of a former pod of the same name.
		runs = slices.DeleteFunc(runs, func(s Stream) bool { return s.PodUID == p.Metadata.UID })
		if len(runs) == 0 {
			return s, false
		}
		return runs[len(runs)-1], true
	}
	previous := ended[at]
	runs = slices.DeleteFunc(runs, func(s Stream) bool { return !previous.isOf(s) })
	if len(runs) == 0 {
		return s, false
	}
	// The run after one of less than a second can seem to be within it.
	distance := func(s Stream) int64 {
		apart := s.began() - previous.began.UnixMilli()
		return max(apart, -apart)
	}
	return slices.MinFunc(runs, func(a, b Stream) int { return cmp.Compare(distance(a), distance(b)) }), true
}
