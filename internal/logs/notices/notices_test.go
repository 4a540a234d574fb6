// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package notices

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// existing is the UID of all namespaces.
type existing string

func (e existing) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{UID: string(e)}, nil
}

var pod = api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "p", UID: "uid-p"}

// A world is a Notifier with an API server and a clock.
type world struct {
	*Notifier
	t      *testing.T
	client *fake.Clientset
	clock  time.Time
	log    synced.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(), clock: time.Now()}
	w.Notifier = newNotifier(w.client.CoreV1(), existing("uid-tenant"), slog.New(slog.NewTextHandler(&w.log, nil)), func() time.Time { return w.clock })
	return w
}

// written writes what waits, and returns all Events.
func (w *world) written() []corev1.Event {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.waiting <- notice{pod: api.Pod{Namespace: "last", NamespaceUID: "gone"}} // the next send waits for the writing
	for range maxWaiting {
		w.waiting <- notice{pod: api.Pod{Namespace: "last", NamespaceUID: "gone"}}
	}
	cancel()
	require.NoError(w.t, <-ended)
	for len(w.waiting) > 0 {
		<-w.waiting
	}
	list, err := w.client.CoreV1().Events(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

func TestAPodWhoseOutputIsRefusedGetsAnEventWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Refused(pod, "main", "stdout", "the namespace has reached its quota")
	events := w.written()
	require.Len(t, events, 1)
	e := events[0]
	require.Equal(t, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "tenant", Name: "p", UID: "uid-p"}, e.InvolvedObject)
	require.Equal(t, []string{"tenant", "Warning", "LogsRefused", "entrypointer-logs"}, []string{e.Namespace, e.Type, e.Reason, e.Source.Component})
	require.Equal(t, `The log service refuses the output of stdout of container "main", which is dropped: the namespace has reached its quota.`, e.Message)
	require.True(t, e.LastTimestamp.Equal(&metav1.Time{Time: w.clock}))
}

func TestADropIsToldWithWhereToLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Dropped(pod, "main", "stderr")
	events := w.written()
	require.Len(t, events, 1)
	require.Equal(t, "LogsDropped", events[0].Reason)
	require.Equal(t, `Output of stderr of container "main" was dropped: the container printed more than could be sent, or the log service was down. kubectl entrypointer logs -n tenant p shows where.`, events[0].Message)
}

func TestANoticeIsGivenOnceForEachStreamAndReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 100 {
		w.Dropped(pod, "main", "stdout")
		w.Refused(pod, "main", "stdout", "of the quota")
		w.Dropped(pod, "main", "stderr")
		w.Refused(pod, "other", "stdout", "of the quota")
		w.Dropped(pod, "other", "stdout") // because it was refused
	}
	require.Len(t, w.written(), 4)
	another := newNotifier(w.client.CoreV1(), existing("uid-tenant"), w.logger, w.now) // another replica
	w.Notifier = another
	w.Dropped(pod, "main", "stdout")
	require.Len(t, w.written(), 4)
	require.Empty(t, w.log.String())
}

func TestNoticesAreBoundedForEachNamespaceAndInTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 1000 {
		w.Dropped(pod, fmt.Sprint("c", i), "stdout")
	}
	require.Len(t, w.waiting, namespaceBurst)
	other := pod
	other.Namespace = "other"
	w.Dropped(other, "main", "stdout")
	require.Len(t, w.waiting, namespaceBurst+1, "others are told")
	w.clock = w.clock.Add(3 * time.Minute)
	for i := range 1000 {
		w.Dropped(pod, fmt.Sprint("c", i), "stdout")
	}
	require.Len(t, w.waiting, namespaceBurst+4)

	w = newWorld(t)
	for i := range 1000 {
		other.Namespace, other.UID = fmt.Sprint("n", i), fmt.Sprint(i)
		w.Dropped(other, "main", "stdout")
	}
	require.Len(t, w.waiting, totalBurst)
	w.Dropped(pod, "main", "stdout")
	require.Len(t, w.waiting, maxWaiting, "nobody waits")
	require.LessOrEqual(t, len(w.told.Keys()), maxTold)
}

func TestANoticeThatCanNotBeWrittenIsGivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	down := true
	w.client.PrependReactor("create", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
		return down, nil, apierrors.NewServiceUnavailable("no leader")
	})
	w.Dropped(pod, "main", "stdout")
	require.Empty(t, w.written())
	require.Contains(t, w.log.String(), "no leader")
	down = false
	w.Dropped(pod, "main", "stdout")
	require.Len(t, w.written(), 1)
}

func TestAPodOfAFormerNamespaceGetsNoEventInTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	former := pod
	for _, former.NamespaceUID = range []string{"uid-former", ""} {
		former.UID = "uid-" + former.NamespaceUID
		w.Dropped(former, "main", "stdout")
	}
	require.Empty(t, w.written())
}

func TestAnEventRepeatsNoTextOfAClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{"Run: kubectl delete all", "a\nb", strings.Repeat("x", 253), ""} {
		w.Dropped(pod, text, text)
	}
	for _, e := range w.written() {
		require.True(t, strings.HasPrefix(e.Message, "Output of a stream was dropped: "), e.Message)
	}
}
