// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

const (
	// MaxPodsPage bounds the pods in a page of a list.
	MaxPodsPage = 500
	// maxPodStreamsRead bounds the streams of a pod that are looked at for a list: the ones
	// that were created last.
	maxPodStreamsRead = 100
	// listReaders bounds the streams that are looked at in parallel.
	listReaders = 16
	// podsTimeout bounds the search for the pods of a namespace. The API server waits for a
	// minute.
	podsTimeout = 40 * time.Second
	// eventsName is the name of the streams that containers don't print, but the supervisor.
	eventsName = "events"
	// perIndexed is the memory of an entry of the index, in bytes. An entry is copied when its
	// pod gets more of them.
	perIndexed = 256
)

// A PodsQuery selects pods that have streams in a namespace. All pods of one name count as
// one.
type PodsQuery struct {
	Namespace string
	// Pod is the name of the only pod, "" for all.
	Pod string
	// Selector selects by the labels of package loglabels, of which it has to require one. Nil
	// selects all.
	Selector labels.Selector
	// Span selects pods of which a stream was created in it.
	Span
	// NotBefore leaves out all streams that were created earlier.
	NotBefore time.Time
	// After is the last pod of the former page.
	After PodsPosition
	// Limit bounds the pods, with MaxPodsPage. A page ends earlier when MaxListed streams are
	// to be looked at.
	Limit int
}

// A PodsPosition is the place of a pod in the order of a list: the pods of which a stream
// was created last come first.
type PodsPosition struct {
	Last time.Time
	Name string
}

// compare orders positions.
func (p PodsPosition) compare(other PodsPosition) int {
	return cmp.Or(other.Last.Compare(p.Last), strings.Compare(p.Name, other.Name))
}

// A ListedPod is a pod in a list.
type ListedPod struct {
	PodsPosition
	First time.Time // when its first stream was created
	Count int       // of its streams
	// Streams are the newest streams that were looked at, the newest first.
	Streams []ListedStream
}

// A ListedStream is a stream of a pod in a list.
type ListedStream struct {
	Listed
	Ended  bool
	Length int64 // in bytes, once it has ended
}

// A PodsPage is a part of a list.
type PodsPage struct {
	Pods []ListedPod
	// Remaining is how many pods come after these.
	Remaining int
	// Incomplete says that the namespace has more streams than are searched for pods.
	Incomplete bool
}

// ListPods returns pods that have streams, those first of which a stream was created last.
// Streams for which keep is false, such as those of a former namespace, don't count.
func (s *Store) ListPods(ctx context.Context, q PodsQuery, keep func(Listed) bool) (page PodsPage, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, podsTimeout, errors.New("searching the index took too long"))
	defer cancel()
	index, incomplete, err := s.indexed(ctx, q)
	if err == nil {
		page, err = s.podsPage(ctx, q, index, keep)
	}
	if err != nil {
		return page, fmt.Errorf("listing the pods with streams in namespace %q: %w", q.Namespace, err)
	}
	page.Incomplete = incomplete
	return page, nil
}

// indexed returns the streams that the index has for each pod, and whether there are more
// than it searches.
func (s *Store) indexed(ctx context.Context, q PodsQuery) (index map[string][]storage.Object, more bool, err error) {
	if err := CheckNamespace(q.Namespace); err != nil {
		return nil, false, err
	}
	if q.Selector != nil {
		return s.indexedByLabel(ctx, q)
	}
	index = map[string][]storage.Object{}
	looked := 0
	add := func(pod string, o storage.Object) bool {
		if looked++; looked > maxListedObjects {
			more = true
			return false
		}
		if err = s.hold.take(perIndexed); err == nil && !o.Written.Before(q.NotBefore) {
			index[pod] = append(index[pod], o)
		}
		return err == nil
	}
	var errWalk error
	if q.Pod == "" {
		errWalk = s.bucket.Walk(ctx, "pods/"+q.Namespace, "", func(o storage.Object) bool {
			pod := path.Dir(o.Name)
			o.Name = path.Base(o.Name)
			return add(pod, o)
		})
	} else if directory, errName := podDirectory(q.Namespace, q.Pod); errName != nil {
		errWalk = errName
	} else {
		errWalk = s.bucket.Each(ctx, directory, func(o storage.Object) bool { return add(q.Pod, o) })
	}
	return index, more, errors.Join(err, errWalk)
}

// indexedByLabel is indexed for a selector. Its entries are those of the pods' streams that
// match, of the MaxListed that were created last.
func (s *Store) indexedByLabel(ctx context.Context, q PodsQuery) (index map[string][]storage.Object, more bool, err error) {
	key, value := loglabels.Required(q.Selector)
	directory, err := labelDirectory(q.Namespace, key, value)
	if err != nil {
		return nil, false, err
	}
	if err := s.hold.take(2 * MaxListed * perIndexed); err != nil {
		return nil, false, err
	}
	entries, more, err := s.newestObjects(ctx, directory)
	if err != nil {
		return nil, false, err
	}
	sources := make([]Source, len(entries))
	err = inParallel(ctx, len(entries), func(ctx context.Context, at int) (err error) {
		if sources[at], err = s.Source(ctx, entries[at].Name); errors.Is(err, ErrNoStream) {
			err = nil // the stream was just deleted, so it has no labels
		}
		return err
	})
	index = map[string][]storage.Object{}
	for at, o := range entries {
		source := sources[at]
		if q.Selector.Matches(labels.Set(source.Labels)) && (q.Pod == "" || source.Pod == q.Pod) && !o.Written.Before(q.NotBefore) {
			index[source.Pod] = append(index[source.Pod], o)
		}
	}
	return index, more, err
}

// inParallel calls do for the numbers from 0 on, up to listReaders of them at the same time,
// and returns the first error.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, at int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listReaders)
	for at := range n {
		group.Go(func() error { return do(ctx, at) })
	}
	return group.Wait()
}

// podsPage returns the page of the pods of an index that a query asks for.
func (s *Store) podsPage(ctx context.Context, q PodsQuery, index map[string][]storage.Object, keep func(Listed) bool) (page PodsPage, err error) {
	pods := []ListedPod{}
	for name, entries := range index {
		slices.SortFunc(entries, func(a, b storage.Object) int {
			return cmp.Or(b.Written.Compare(a.Written), strings.Compare(a.Name, b.Name))
		})
		p := ListedPod{PodsPosition: PodsPosition{entries[0].Written, name}, First: entries[len(entries)-1].Written, Count: len(entries)}
		if q.Span.hasAny(entries) && (q.After.Name == "" || q.After.compare(p.PodsPosition) < 0) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b ListedPod) int { return a.compare(b.PodsPosition) })
	streams, end := 0, 0
	for end < min(len(pods), q.Limit, MaxPodsPage) && streams < MaxListed {
		streams += min(pods[end].Count, maxPodStreamsRead)
		end++
	}
	page = PodsPage{Pods: pods[:end], Remaining: len(pods) - end}
	wanted := map[string][]storage.Object{}
	for _, p := range page.Pods {
		wanted[p.Name] = index[p.Name][:min(p.Count, maxPodStreamsRead)]
	}
	return page, s.readPods(ctx, page.Pods, wanted, keep)
}

// readPods looks at streams of pods, some at the same time.
func (s *Store) readPods(ctx context.Context, pods []ListedPod, wanted map[string][]storage.Object, keep func(Listed) bool) error {
	type place struct{ pod, stream int }
	var places []place
	for at := range pods {
		pods[at].Streams = make([]ListedStream, len(wanted[pods[at].Name]))
		for i := range pods[at].Streams {
			places = append(places, place{at, i})
		}
	}
	if err := inParallel(ctx, len(places), func(ctx context.Context, at int) (err error) {
		p := &pods[places[at].pod]
		i := places[at].stream
		p.Streams[i], err = s.readListed(ctx, wanted[p.Name][i])
		return err
	}); err != nil {
		return err
	}
	for at := range pods {
		p := &pods[at]
		p.Streams = slices.DeleteFunc(p.Streams, func(l ListedStream) bool { return l.ID == "" || !keep(l.Listed) })
		for _, l := range p.Streams {
			if err := s.hold.take(perSourceByte * l.size()); err != nil {
				return err
			}
		}
	}
	return nil
}

// readListed looks at a stream of the index. It has no ID if the stream was just deleted.
func (s *Store) readListed(ctx context.Context, o storage.Object) (l ListedStream, err error) {
	source, err := s.Source(ctx, o.Name)
	if errors.Is(err, ErrNoStream) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Listed = Listed{ID: o.Name, Created: o.Written, Source: source}
	l.Length, l.Ended, err = s.length(ctx, o.Name)
	return l, err
}

// IsPartial reports whether the pod has streams that weren't looked at.
func (p ListedPod) IsPartial() bool { return p.Count > maxPodStreamsRead }

// A PodSummary says what there is of a pod in a list.
type PodSummary struct {
	Labels map[string]string // of the newest stream
	UIDs   []string          // of the pods with this name, the newest first
	// Containers are sorted by name. Runs is how often they have started.
	Containers []string
	Runs       int
	Ended      bool // whether the end of each stream is known
	// Bytes is how many bytes the containers have printed, of the streams whose end is known,
	// and MaxOffset for more than that: senders tell the ends.
	Bytes int64
}

// Summary returns what there is of a pod, as far as its streams were looked at.
func (p ListedPod) Summary() PodSummary {
	summary := PodSummary{Ended: true}
	type run struct{ uid, container, start string }
	runs, containers := map[run]bool{}, map[string]bool{}
	for at, l := range p.Streams {
		if at == 0 {
			summary.Labels = l.Labels
		}
		if !slices.Contains(summary.UIDs, l.PodUID) {
			summary.UIDs = append(summary.UIDs, l.PodUID)
		}
		runs[run{l.PodUID, l.Container, l.Start}] = true
		containers[l.Container] = true
		summary.Ended = summary.Ended && l.Ended
		if l.Name != eventsName {
			summary.Bytes = min(summary.Bytes+l.Length, MaxOffset)
		}
	}
	summary.Containers, summary.Runs = slices.Sorted(maps.Keys(containers)), len(runs)
	return summary
}
