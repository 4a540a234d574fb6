// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A watched is a follower of an API server that can refuse, or be away.
type watched struct {
	*follower
	kube     *fake.Clientset
	refusal  atomic.Pointer[error]
	requests atomic.Int64
}

func newWatched(t *testing.T, delivery pod.Delivery, nodes ...*corev1.Node) *watched {
	t.Helper()
	w := &watched{kube: fake.NewClientset()}
	for _, n := range nodes {
		require.NoError(t, w.kube.Tracker().Add(n))
	}
	w.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.requests.Add(1)
		if refusal := w.refusal.Load(); refusal != nil {
			return true, nil, *refusal
		}
		return false, nil, nil
	})
	a := New(images)
	a.Configure(&config.Config{Policy: pod.Policy{Delivery: delivery}})
	a.update(func(e *evidence) { e.proofs = answers(proven, fits) })
	w.follower = &follower{
		auto: a, client: w.kube, logger: logtesting.TestLogger(t),
		version: func(context.Context) (string, error) { return "v1.36.3", nil },
	}
	t.Cleanup(w.end)
	return w
}

func (w *watched) refuse(err error) { w.refusal.Store(&err) }

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no RBAC policy matched"))

// requireSoon waits for what the watch brings.
func (w *watched) requireSoon(t *testing.T, want Reason) {
	t.Helper()
	require.Eventually(t, func() bool { return w.auto.Verdict().Reason == want }, 30*time.Second, time.Millisecond,
		"want %s, have %s", want, w.auto.Verdict())
}

func TestNodesAreWatchedFromWhenThatIsPermitted(t *testing.T) {
	w := newWatched(t, pod.DeliveryAuto, listed("a", fits))
	w.refuse(forbidden)
	require.Equal(t, NotPermitted, w.auto.Verdict().Reason, "before it has looked")
	w.look(t.Context())
	w.look(t.Context())
	require.Equal(t, NotPermitted, w.auto.Verdict().Reason)
	require.EqualValues(t, 2, w.requests.Load(), "one request a look")

	w.refusal.Store(nil)
	w.look(t.Context())
	w.requireSoon(t, Proven)
	nodes := w.kube.CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), listed("old", tooOld, notReady), metav1.CreateOptions{})
	require.NoError(t, err)
	w.requireSoon(t, NodeUnfit)
	_, err = nodes.Update(t.Context(), listed("old", tooOld, cordoned), metav1.UpdateOptions{})
	require.NoError(t, err)
	w.requireSoon(t, Proven)
	_, err = nodes.Update(t.Context(), listed("old", tooOld), metav1.UpdateOptions{})
	require.NoError(t, err)
	w.requireSoon(t, NodeUnfit)
	require.NoError(t, nodes.Delete(t.Context(), "old", metav1.DeleteOptions{}))
	w.requireSoon(t, Proven)

	w.refuse(forbidden)
	w.look(t.Context())
	require.Equal(t, NotPermitted, w.auto.Verdict().Reason, "the right is withdrawn")
	w.refusal.Store(nil)
	w.look(t.Context())
	w.requireSoon(t, Proven)
}

func TestAnAPIServerThatIsAwayChangesNothing(t *testing.T) {
	w := newWatched(t, pod.DeliveryAuto, listed("a", fits))
	w.look(t.Context())
	w.requireSoon(t, Proven)
	w.refuse(errors.New("connection refused"))
	w.version = func(context.Context) (string, error) { return "", errors.New("connection refused") }
	w.look(t.Context())
	require.Equal(t, Proven, w.auto.Verdict().Reason)
	w.refusal.Store(nil)
	w.look(t.Context())
	require.Equal(t, Proven, w.auto.Verdict().Reason, "its version is known from before")

	w = newWatched(t, pod.DeliveryAuto, listed("a", fits))
	w.refuse(errors.New("connection refused"))
	w.look(t.Context())
	require.False(t, w.auto.Verdict().ImageVolumes(), "from the start")
}

func TestUnderAnotherDeliveryNodesAreNotWatched(t *testing.T) {
	w := newWatched(t, pod.DeliveryInitContainer, listed("a", fits))
	w.look(t.Context())
	require.EqualValues(t, 1, w.requests.Load(), "whether it is permitted")
	require.Nil(t, w.stop)
	require.Equal(t, NotConfigured, w.auto.Verdict().Reason)

	w.auto.Configure(&config.Config{Policy: pod.Policy{Delivery: pod.DeliveryAuto}})
	w.look(t.Context())
	w.requireSoon(t, Proven)
	w.auto.Configure(&config.Config{})
	require.Equal(t, NotConfigured, w.auto.Verdict().Reason)
	w.look(t.Context())
	w.auto.Configure(&config.Config{Policy: pod.Policy{Delivery: pod.DeliveryAuto}})
	require.Equal(t, NodesUnknown, w.auto.Verdict().Reason, "what was known is forgotten")
	w.look(t.Context())
	w.requireSoon(t, Proven)
}

func TestAChangeOfTheConfigurationIsLookedAtAtOnce(t *testing.T) {
	w := newWatched(t, pod.DeliveryInitContainer, listed("a", fits))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.follow(ctx)
	}()
	w.auto.Configure(&config.Config{Policy: pod.Policy{Delivery: pod.DeliveryAuto}})
	w.requireSoon(t, Proven)
	cancel()
	<-ended
	require.Equal(t, NodesUnknown, w.auto.Verdict().Reason, "a replica that stops doesn't know any more")
}

// What a namespace asks for may need a part of the installation that isn't there.
func TestWhetherConfigAutoIsInstalledIsKnownUnderEveryDelivery(t *testing.T) {
	for _, delivery := range []pod.Delivery{pod.DeliveryInitContainer, pod.DeliveryAuto} {
		w := newWatched(t, delivery, listed("a", fits))
		require.False(t, w.auto.Absent(), "before it has looked")
		w.refuse(forbidden)
		w.look(t.Context())
		require.True(t, w.auto.Absent())
		w.refuse(errors.New("connection refused"))
		w.look(t.Context())
		require.True(t, w.auto.Absent(), "nobody has said otherwise")
		w.refusal.Store(nil)
		w.look(t.Context())
		require.False(t, w.auto.Absent())
	}
}

func TestANamespaceThatAsksTurnsItOnWhateverTheOperatorsDeliveryIs(t *testing.T) {
	w := newWatched(t, pod.DeliveryInitContainer, listed("a", fits))
	namespaces := w.auto.namespaceHandler(home)
	asking := func(name string, annotations ...string) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "auto"}}}
		for i := 0; i < len(annotations); i += 2 {
			ns.Annotations[annotations[i]] = annotations[i+1]
		}
		return ns
	}
	for name, ns := range map[string]*corev1.Namespace{
		"it is out":                  asking("a", pod.InjectAnnotation, "false"),
		"it asks for something else": asking("a", pod.DeliveryAnnotation, "claim"),
		"it asks for nothing known":  asking("a", pod.DeliveryAnnotation, "Auto"),
		"it is the injector's":       asking(home),
		"it is the cluster's":        asking("kube-system"),
	} {
		namespaces.OnAdd(ns, false)
		w.look(t.Context())
		require.Equal(t, NotConfigured, w.auto.Verdict().Reason, name)
	}

	namespaces.OnAdd(asking("a"), false)
	namespaces.OnAdd(asking("b"), true)
	w.look(t.Context())
	w.requireSoon(t, Proven)
	namespaces.OnUpdate(asking("a"), asking("a", pod.InjectAnnotation, "false"))
	w.look(t.Context())
	require.Equal(t, Proven, w.auto.Verdict().Reason, "another one asks")
	namespaces.OnDelete(cache.DeletedFinalStateUnknown{Key: "b", Obj: asking("b")})
	require.Equal(t, NotConfigured, w.auto.Verdict().Reason)
	w.look(t.Context())
	require.Nil(t, w.stop, "nobody watches nodes for nobody")
}

func TestANamespaceThatAsksIsHeardAtOnce(t *testing.T) {
	w := newWatched(t, pod.DeliveryInitContainer, listed("a", fits))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.follow(ctx)
	}()
	w.auto.namespaceHandler(home).OnAdd(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Annotations: map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "auto"},
	}}, false)
	w.requireSoon(t, Proven)
	cancel()
	<-ended
}
