// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/entrypointer/entrypointer/internal/metricstest"
)

// running is a recorder whose writers end with the test.
func running(t *testing.T, sink record.EventSink) *recorder {
	t.Helper()
	r, _, _ := runningWatched(t, sink)
	return r
}

// runningWatched also returns what the recorder logs, and how many events it has dropped, by
// the reasons.
func runningWatched(t *testing.T, sink record.EventSink) (_ *recorder, _ *observer.ObservedLogs, dropped func() map[dropReason]int) {
	t.Helper()
	core, logged := observer.New(zap.DebugLevel)
	provider, exported := metricstest.NewProvider(t)
	metrics, err := newMetrics(provider)
	require.NoError(t, err)
	r := newRecorder(sink, metrics, zap.New(core).Sugar())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { r.run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	return r, logged, func() map[dropReason]int {
		counts := map[dropReason]int{}
		families, err := exported.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() != "entrypointer_events_dropped_total" {
				continue
			}
			for _, series := range family.GetMetric() {
				for _, label := range series.GetLabel() {
					if label.GetName() == "reason" {
						counts[dropReason(label.GetValue())] = int(series.GetCounter().GetValue())
					}
				}
			}
		}
		return counts
	}
}

// A store is the API server's part of events.
type store struct {
	takes time.Duration // to write one
	fails func(*corev1.Event) error

	expired bool // what was created

	mu      sync.Mutex
	written int
	created []*corev1.Event
	counts  map[string]int32 // by name
}

func (s *store) write(event *corev1.Event) (*corev1.Event, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		if err := s.fails(event); err != nil {
			return nil, err
		}
	}
	if s.counts == nil {
		s.counts = map[string]int32{}
	}
	s.written++
	s.counts[event.Name] = event.Count
	return event, nil
}

func (s *store) Create(event *corev1.Event) (*corev1.Event, error) {
	written, err := s.write(event)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.created = append(s.created, event)
	}
	return written, err
}

func (s *store) Update(*corev1.Event) (*corev1.Event, error) { panic("no event is updated") }

func (s *store) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	if s.expired {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, event.Name)
	}
	return s.write(event)
}

// of returns how many events of a namespace were created.
func (s *store) of(namespace string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.created {
		if event.Namespace == namespace {
			n++
		}
	}
	return n
}

// warnOf records a warning about an owner in a namespace.
func (r *recorder) warnOf(namespace, owner string) {
	r.Event(&corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: owner, UID: "1"}, corev1.EventTypeWarning, "UnknownAnnotation", "it is so")
}

// A tenant can create Jobs as fast as the API server takes them, each of which is an owner of
// its own.
func TestTheEventsOfOneTenantKeepOutNoneOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: 10 * time.Millisecond}
		r, logged, dropped := runningWatched(t, s)
		for i := range 10_000 {
			r.warnOf("flood", fmt.Sprint("job-", i))
		}
		time.Sleep(25 * time.Millisecond) // it isn't over
		for i := range 100_000 {
			r.warnOf("flood", fmt.Sprint("job-", i))
			if i%10_000 == 0 {
				r.warnOf("modest", fmt.Sprint("job-", i))
			}
		}
		time.Sleep(150 * time.Millisecond)
		require.Equal(t, 10, s.of("modest"), "one after the other, and at once")
		time.Sleep(time.Hour)
		require.LessOrEqual(t, s.of("flood"), eventBurst+maxWaitingOfNamespace)
		require.Equal(t, dropped()[dropQueueFull], logged.FilterMessage("Dropped an event").FilterField(zap.String("why", "QueueFull")).Len())
		total := dropped()[dropQueueFull] + dropped()[dropNamespaceRate]
		require.Equal(t, 10_000+100_000+10, s.written+total, "each event is written or counted")
	})
}

func TestANamespaceGetsSoManyEventsAsAPIServersCanKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r, _, dropped := runningWatched(t, s)
		for i := range 3600 {
			for j := range 10 {
				r.warnOf("flood", fmt.Sprint("job-", i, "-", j))
			}
			time.Sleep(time.Second)
		}
		require.InDelta(t, eventBurst+3600, s.of("flood"), 2)
		require.Equal(t, map[dropReason]int{dropNamespaceRate: 10*3600 - s.of("flood")}, dropped())
	})
}

func TestAnEventThatGetsNoResponseDelaysItsOwnNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{fails: func(event *corev1.Event) error {
			if event.Namespace == "broken" {
				return errors.New("connection refused")
			}
			return nil
		}}
		r, logged, dropped := runningWatched(t, s)
		for i := range 50 {
			r.warnOf("broken", fmt.Sprint("job-", i))
		}
		r.warnOf("modest", "job")
		synctest.Wait()
		require.Equal(t, 1, s.of("modest"))
		require.Zero(t, logged.FilterMessage("Failed to write an event").Len(), "it is tried again")
		time.Sleep((eventTries - 1) * eventRetryPause)
		synctest.Wait()
		require.Equal(t, 1, logged.FilterMessage("Failed to write an event").Len())
		s.mu.Lock()
		s.fails = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		require.Equal(t, 49, s.of("broken"))
		require.Equal(t, map[dropReason]int{dropFailed: 1}, dropped())
	})
}

func TestARefusedEventIsNotTriedAgain(t *testing.T) {
	events := schema.GroupResource{Resource: "events"}
	ending := apierrors.NewForbidden(events, "x", errors.New("the namespace is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for what, test := range map[string]struct {
		err    error
		logged int
	}{
		"it may not":                  {apierrors.NewForbidden(events, "x", errors.New("no")), 1},
		"the namespace is being gone": {ending, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				r, logged, dropped := runningWatched(t, &store{fails: func(*corev1.Event) error { tries.Add(1); return test.err }})
				r.warnOf("tenant", "job")
				time.Sleep(time.Hour)
				require.EqualValues(t, 1, tries.Load())
				require.Equal(t, test.logged, logged.FilterMessage("Failed to write an event").Len())
				require.Equal(t, test.logged, dropped()[dropFailed])
			})
		})
	}
}

// A controller that is refused tries again for ever.
func TestAnOwnerThatIsWarnedOfWithoutEndGetsSomeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r, _, dropped := runningWatched(t, s)
		for range 100 {
			r.warnOf("tenant", "job")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		counted := int(s.counts[s.created[0].Name])
		require.Less(t, counted, 100)
		require.Equal(t, map[dropReason]int{dropOwnerRate: 100 - counted}, dropped())
	})
}

func TestAnEventThatHasExpiredIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r := running(t, s)
		for range 3 {
			r.warnOf("tenant", "job")
			synctest.Wait()
		}
		require.Len(t, s.created, 1)
		require.EqualValues(t, 3, s.counts[s.created[0].Name])
		s.expired = true
		r.warnOf("tenant", "job")
		synctest.Wait()
		require.Len(t, s.created, 2)
		require.Equal(t, s.created[0].Name, s.created[1].Name)
	})
}

func TestEventsOfDifferentOwnersHaveDifferentNames(t *testing.T) {
	base := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "app", UID: "1"}, Reason: "Any", Message: "any"}
	seen := map[string]bool{eventName(&base): true}
	for _, change := range []func(*corev1.Event){
		func(e *corev1.Event) { e.InvolvedObject.UID = "2" },
		func(e *corev1.Event) { e.InvolvedObject.Kind = "Job" },
		func(e *corev1.Event) { e.Reason = "Other" },
		func(e *corev1.Event) { e.Message = "other" },
	} {
		changed := base
		change(&changed)
		require.False(t, seen[eventName(&changed)])
		seen[eventName(&changed)] = true
	}
	require.Equal(t, eventName(&base), eventName(base.DeepCopy()))
}
