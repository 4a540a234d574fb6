// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// everything keeps all streams.
func everything(Listed) bool { return true }

// begins creates the streams of a run of a container at a time, and ends all but the last.
func (m *memory) begins(t *testing.T, s *Store, at time.Time, source Source, names ...string) {
	t.Helper()
	m.now = at
	source.Namespace, source.PodUID, source.Start = "tenant", source.Pod+source.PodUID, at.String()
	for i, name := range names {
		source.Name = name
		id, err := s.Create(t.Context(), source)
		require.NoError(t, err)
		if i < len(names)-1 {
			require.NoError(t, s.End(t.Context(), id, 0))
		}
	}
}

// names returns the names of the pods of a page.
func (page PodsPage) names() (names []string) {
	for _, p := range page.Pods {
		names = append(names, p.Name)
	}
	return names
}

var midnight = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

func TestThePodsOfANamespaceAreListedByTheTimeOfTheirLastStream(t *testing.T) {
	m := newMemory()
	s := newStore(m, []byte("key"))
	hour := func(n int) time.Time { return midnight.Add(time.Duration(n) * time.Hour) }
	m.begins(t, s, hour(0), Source{Pod: "web", Container: "main"}, "stdout", "events")
	m.begins(t, s, hour(1), Source{Pod: "job", Container: "main", Labels: map[string]string{loglabels.Job: "job"}}, "stdout", "")
	m.begins(t, s, hour(1), Source{Pod: "a-job", Container: "main", Labels: map[string]string{loglabels.Job: "job"}}, "stdout", "")
	m.begins(t, s, hour(2), Source{Pod: "web", Container: "main"}, "stdout")
	m.begins(t, s, hour(3), Source{Pod: "web", Container: "sidecar", PodUID: "-2"}, "stdout", "stderr")
	m.now = hour(4)
	_, err := s.Create(t.Context(), Source{Namespace: "tenant-2", Pod: "other", PodUID: "uid", Name: "stdout"})
	require.NoError(t, err)

	page, err := s.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 10}, everything)
	require.NoError(t, err)
	require.Equal(t, []string{"web", "a-job", "job"}, page.names())
	require.Zero(t, page.Remaining)
	require.False(t, page.Incomplete)
	web := page.Pods[0]
	require.Equal(t, 5, web.Count)
	require.Equal(t, hour(0), web.First)
	require.Equal(t, hour(3), web.Last)
	require.Equal(t, PodSummary{UIDs: []string{"web-2", "web"}, Containers: []string{"main", "sidecar"}, Runs: 3}, web.Summary())
	require.Equal(t, map[string]string{loglabels.Job: "job"}, page.Pods[1].Summary().Labels)

	for name, test := range map[string]struct {
		query PodsQuery
		want  []string
	}{
		"since a time":              {PodsQuery{Span: Span{Since: hour(1)}}, []string{"web", "a-job", "job"}},
		"since a later time":        {PodsQuery{Span: Span{Since: hour(2)}}, []string{"web"}},
		"until a time":              {PodsQuery{Span: Span{Until: hour(1)}}, []string{"web"}},
		"of an hour":                {PodsQuery{Span: Span{hour(1), hour(2)}}, []string{"a-job", "job"}},
		"of an hour of nothing":     {PodsQuery{Span: Span{hour(4), hour(5)}}, nil},
		"of one name":               {PodsQuery{Pod: "job"}, []string{"job"}},
		"of no such name":           {PodsQuery{Pod: "jo"}, nil},
		"of a label":                {PodsQuery{Selector: selector(t, loglabels.Job+"=job")}, []string{"a-job", "job"}},
		"of a label and a name":     {PodsQuery{Selector: selector(t, loglabels.Job+"=job"), Pod: "job"}, []string{"job"}},
		"of a label without others": {PodsQuery{Selector: selector(t, loglabels.Job+"=job,"+loglabels.CronJob)}, nil},
		"without former streams":    {PodsQuery{NotBefore: hour(2)}, []string{"web"}},
		"of a label and a time":     {PodsQuery{Selector: selector(t, loglabels.Job+"=job"), NotBefore: hour(2)}, nil},
	} {
		test.query.Namespace, test.query.Limit = "tenant", 10
		page, err := s.ListPods(t.Context(), test.query, everything)
		require.NoError(t, err, name)
		require.Equal(t, test.want, page.names(), name)
	}
	page, err = s.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 1}, func(l Listed) bool { return l.PodUID == "web" })
	require.NoError(t, err)
	require.Equal(t, PodSummary{UIDs: []string{"web"}, Containers: []string{"main"}, Runs: 2}, page.Pods[0].Summary(), "a former pod doesn't count")
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(text)
	require.NoError(t, err)
	return parsed
}

func TestTheEndOfEachStreamSaysThatAPodIsComplete(t *testing.T) {
	m := newMemory()
	s := newStore(m, []byte("key"))
	m.begins(t, s, midnight, Source{Pod: "job"}, "stdout", "events")
	ended := func() bool {
		page, err := s.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 1}, everything)
		require.NoError(t, err)
		return page.Pods[0].Summary().Ended
	}
	require.False(t, ended())
	list, _, err := s.List(t.Context(), "tenant", "job")
	require.NoError(t, err)
	for _, l := range list {
		require.NoError(t, s.End(t.Context(), l.ID, 0))
	}
	require.True(t, ended())
}

// TestTheBytesOfAPodAreThoseThatItHasPrinted ends the streams of a pod one after the other. Those
// that are open aren't counted, nor are events. Ends are told by senders, and so may be anything.
func TestTheBytesOfAPodAreThoseThatItHasPrinted(t *testing.T) {
	m := newMemory()
	s := newStore(m, []byte("key"))
	for _, name := range []string{"stdout", "stderr", "events"} {
		m.begins(t, s, midnight, Source{Pod: "job"}, name)
	}
	m.begins(t, s, midnight, Source{Pod: "job", Container: "other"}, "stdout")
	list, _, err := s.List(t.Context(), "tenant", "job")
	require.NoError(t, err)
	bytes := func() int64 {
		page, err := s.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 1}, everything)
		require.NoError(t, err)
		return page.Pods[0].Summary().Bytes
	}
	require.Zero(t, bytes())
	for _, step := range []struct {
		container, name string
		length, want    int64
	}{{"", "stdout", 1000, 1000}, {"", "events", 500, 1000}, {"", "stderr", 24, 1024}, {"other", "stdout", MaxOffset, MaxOffset}} {
		at := slices.IndexFunc(list, func(l Listed) bool { return l.Name == step.name && l.Container == step.container })
		require.NoError(t, s.End(t.Context(), list[at].ID, step.length))
		require.Equal(t, step.want, bytes(), step)
	}
}

func TestPagesHaveEachPodOnce(t *testing.T) {
	m := newMemory()
	s := newStore(m, []byte("key"))
	var want []string
	for i := range 23 {
		m.begins(t, s, midnight.Add(-time.Duration(i/5)*time.Second), Source{Pod: fmt.Sprintf("p-%02d", i)}, "stdout")
		want = append(want, fmt.Sprintf("p-%02d", i))
	}
	for _, limit := range []int{1, 4, 5, 22, 23, 24} {
		var got []string
		for q := (PodsQuery{Namespace: "tenant", Limit: limit}); ; {
			page, err := s.ListPods(t.Context(), q, everything)
			require.NoError(t, err)
			got = append(got, page.names()...)
			require.Equal(t, len(want), len(got)+page.Remaining)
			if page.Remaining == 0 {
				break
			}
			require.Len(t, page.Pods, limit)
			q.After = page.Pods[len(page.Pods)-1].PodsPosition
		}
		require.Equal(t, want, got, "%d pods in a page", limit)
	}
}

// A populous namespace has many pods with many streams.
type populous struct {
	storage.Bucket
	pods, streams int
	reads         *atomic.Int64
}

// Walk implements storage.Bucket.
func (p populous) Walk(_ context.Context, _, _ string, each func(storage.Object) bool) error {
	for i := range p.pods * p.streams {
		if !each(storage.Object{Name: fmt.Sprintf("p-%d/%032x", i%p.pods, i), Written: midnight.Add(time.Duration(i) * time.Second)}) {
			break
		}
	}
	return nil
}

// Read implements storage.Bucket.
func (p populous) Read(_ context.Context, key string) ([]byte, error) {
	p.reads.Add(1)
	if path.Base(key) == "end" {
		return nil, storage.ErrNotFound
	}
	return []byte(`{"name":"stdout","podUID":"uid"}`), nil
}

func TestAListOfPodsIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		pods, streams, limit  int
		listed, left, atMost  int
		incomplete, countsAll bool
	}{
		"the limit":                  {pods: 2000, streams: 2, limit: 50, listed: 50, left: 1950, atMost: 100, countsAll: true},
		"the most in a page":         {pods: 2000, streams: 1, limit: 1e9, listed: MaxPodsPage, left: 1500, atMost: MaxPodsPage, countsAll: true},
		"pods with many streams":     {pods: 40, streams: 500, limit: 50, listed: MaxListed / maxPodStreamsRead, left: 30, atMost: MaxListed, countsAll: true},
		"more than the index shows":  {pods: 10, streams: maxListedObjects, limit: 1, listed: 1, left: 9, atMost: maxPodStreamsRead, incomplete: true},
		"as many as the index shows": {pods: 10, streams: maxListedObjects / 10, limit: 1, listed: 1, left: 9, atMost: maxPodStreamsRead, countsAll: true},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := populous{pods: test.pods, streams: test.streams, reads: &atomic.Int64{}}
			store, release := newStore(bucket, nil).WithMemoryHold("tenant")
			defer release()
			page, err := store.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: test.limit}, everything)
			require.NoError(t, err)
			require.Len(t, page.Pods, test.listed)
			require.Equal(t, test.left, page.Remaining)
			require.Equal(t, test.incomplete, page.Incomplete)
			require.LessOrEqual(t, bucket.reads.Load(), int64(2*test.atMost))
			require.Equal(t, test.countsAll, page.Pods[0].Count == test.streams)
			require.NotZero(t, store.HeldBytes())
			require.Less(t, store.HeldBytes(), int64(maxNamespaceMemory))
		})
	}
}

func TestAListOfPodsWaitsForMemory(t *testing.T) {
	store, release := newStore(populous{pods: 1000, streams: 1, reads: &atomic.Int64{}}, nil).WithMemoryHold("tenant")
	defer release()
	require.NoError(t, store.hold.take(maxNamespaceMemory-perIndexed*10))
	_, err := store.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 1}, everything)
	require.ErrorIs(t, err, ErrBusy)
}

func TestAFailureToListPodsIsReported(t *testing.T) {
	good := replica(t, t.TempDir())
	id, err := good.Create(t.Context(), labeled("a", "entrypointer.dev/job=build"))
	require.NoError(t, err)
	for name, f := range map[string]struct {
		failing
		query PodsQuery
	}{
		"the index":  {failing{list: "pods/"}, PodsQuery{}},
		"of a pod":   {failing{list: "pods/"}, PodsQuery{Pod: "a"}},
		"of a label": {failing{list: "labels/"}, PodsQuery{Selector: selector(t, "entrypointer.dev/job=build")}},
		"a source":   {failing{read: "streams/" + id + "/meta"}, PodsQuery{}},
		"an end":     {failing{read: "streams/" + id + "/end"}, PodsQuery{}},
	} {
		f.Bucket, f.query.Namespace, f.query.Limit = good.bucket, "tenant", 10
		_, err := newStore(f.failing, good.key).ListPods(t.Context(), f.query, everything)
		require.ErrorIs(t, err, errBroken, name)
		require.ErrorContains(t, err, `listing the pods with streams in namespace "tenant"`, name)
	}
	for _, q := range []PodsQuery{{Namespace: "../x"}, {Namespace: "tenant", Pod: ".."}} {
		_, err := good.ListPods(t.Context(), q, everything)
		require.ErrorIs(t, err, ErrNoPod)
	}
	for _, text := range []string{"app=web", "entrypointer.dev/job", "entrypointer.dev/job=a,app", "entrypointer.dev/job in (a,b)"} {
		_, err := good.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Selector: selector(t, text)}, everything)
		require.ErrorIs(t, err, ErrNoLabel, text)
	}
	require.NoError(t, good.bucket.Delete(t.Context(), directory(id)+"meta"))
	page, err := good.ListPods(t.Context(), PodsQuery{Namespace: "tenant", Limit: 10}, everything)
	require.NoError(t, err)
	require.Empty(t, page.Pods[0].Streams, "it is being deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	_, err = good.ListPods(ctx, PodsQuery{Namespace: "tenant"}, everything)
	require.ErrorIs(t, err, context.Canceled)
}
