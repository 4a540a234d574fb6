// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package notices

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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

// existing is the UID of all namespaces. There is no response about the one that is slow.
type existing string

func (e existing) Namespace(ctx context.Context, name string) (api.Namespace, error) {
	if name == "slow" {
		<-ctx.Done()
		return api.Namespace{}, ctx.Err()
	}
	return api.Namespace{UID: string(e)}, nil
}

var pod = api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "p", UID: "uid-p"}

// A world is a Notifier with an API server, in the time of a test.
type world struct {
	*Notifier
	t      *testing.T
	client *fake.Clientset
	log    synced.Buffer
}

// inWorld runs a test in a world.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewClientset()}
		w.begin()
		test(t, w)
	})
}

// begin begins a Notifier, such as that of another replica.
func (w *world) begin() {
	w.Notifier = New(w.client.CoreV1(), existing("uid-tenant"), slog.New(slog.NewTextHandler(&w.log, nil)))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.t.Cleanup(func() { stop(); require.NoError(w.t, <-ended) })
}

// written returns the Events that don't wait for a rate.
func (w *world) written() []corev1.Event {
	w.t.Helper()
	synctest.Wait()
	list, err := w.client.CoreV1().Events(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

// of returns the number of them in a namespace.
func (w *world) of(namespace string) (n int) {
	for _, e := range w.written() {
		if e.Namespace == namespace {
			n++
		}
	}
	return n
}

func TestAPodWhoseOutputIsRefusedGetsAnEventWithTheReason(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.Refused(pod, "main", "stdout", "the namespace has reached its quota")
		events := w.written()
		require.Len(t, events, 1)
		e := events[0]
		require.Equal(t, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "tenant", Name: "p", UID: "uid-p"}, e.InvolvedObject)
		require.Equal(t, []string{"tenant", "Warning", "LogsRefused", "entrypointer-logs"}, []string{e.Namespace, e.Type, e.Reason, e.Source.Component})
		require.Equal(t, `The log service refuses the output of stdout of container "main", which is dropped: the namespace has reached its quota.`, e.Message)
		require.True(t, e.LastTimestamp.Equal(&metav1.Time{Time: time.Now()}))
	})
}

func TestADropIsToldWithWhereToLook(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.Dropped(pod, "main", "stderr")
		events := w.written()
		require.Len(t, events, 1)
		require.Equal(t, "LogsDropped", events[0].Reason)
		require.Equal(t, `Output of stderr of container "main" was dropped: the container printed more than could be sent, or the log service was down. kubectl entrypointer logs -n tenant p shows where.`, events[0].Message)
	})
}

func TestANoticeIsGivenOnceForEachStreamAndReason(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		for range 100 {
			w.Dropped(pod, "main", "stdout")
			w.Refused(pod, "main", "stdout", "of the quota")
			w.Dropped(pod, "main", "stderr")
			w.Refused(pod, "other", "stdout", "of the quota")
			w.Dropped(pod, "other", "stdout") // because it was refused
		}
		require.Len(t, w.written(), 4)
		w.begin() // another replica
		w.Dropped(pod, "main", "stdout")
		require.Len(t, w.written(), 4)
		require.Empty(t, w.log.String())
	})
}

func TestNoticesOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 1000 {
			w.Dropped(pod, fmt.Sprint("c", i), "stdout")
		}
		require.Equal(t, namespaceBurst, w.of("tenant"))
		time.Sleep(3 * time.Minute)
		for i := range 1000 {
			w.Dropped(pod, fmt.Sprint("c", i), "stdout")
		}
		require.Equal(t, namespaceBurst+3, w.of("tenant"))
	})
}

// The pods of one tenant can be in many namespaces.
func TestNoticesOfManyNamespacesWaitWithoutKeepingAnotherOut(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		flood := func(namespaces int) {
			for i := range namespaces {
				for j := range 10 {
					p := pod
					p.Namespace, p.UID = fmt.Sprint("flood", i), fmt.Sprint(i, j)
					w.Dropped(p, "main", "stdout")
				}
			}
		}
		flood(50)
		synctest.Wait()
		require.LessOrEqual(t, len(w.written()), totalBurst)
		flood(50)
		require.LessOrEqual(t, w.waiting.Len(), maxWaiting)
		w.Dropped(pod, "main", "stdout")
		time.Sleep(time.Minute)
		require.Equal(t, 1, w.of("tenant"), "it takes its turn")
		require.LessOrEqual(t, len(w.written()), totalBurst+60*totalRate)
		require.LessOrEqual(t, len(w.told.Keys()), maxTold)
	})
}

// Such as one whose Events go to an API server that doesn't respond.
func TestANamespaceThatTakesLongDelaysItself(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 10 {
			slow := pod
			slow.Namespace, slow.UID = "slow", fmt.Sprint(i)
			w.Dropped(slow, "main", "stdout")
		}
		w.Dropped(pod, "main", "stdout")
		require.Equal(t, 1, w.of("tenant"))
		time.Sleep(10 * writeTimeout)
		require.Zero(t, w.of("slow"))
		require.Equal(t, 10, strings.Count(w.log.String(), "deadline exceeded"))
	})
}

func TestANoticeThatCanNotBeWrittenIsGivenAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
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
	})
}

func TestAPodOfAFormerNamespaceGetsNoEventInTheNext(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		former := pod
		for _, former.NamespaceUID = range []string{"uid-former", ""} {
			former.UID = "uid-" + former.NamespaceUID
			w.Dropped(former, "main", "stdout")
		}
		require.Empty(t, w.written())
	})
}

func TestAnEventRepeatsNoTextOfAClient(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		for _, text := range []string{"Run: kubectl delete all", "a\nb", strings.Repeat("x", 253), ""} {
			w.Dropped(pod, text, text)
		}
		for _, e := range w.written() {
			require.True(t, strings.HasPrefix(e.Message, "Output of a stream was dropped: "), e.Message)
		}
	})
}
