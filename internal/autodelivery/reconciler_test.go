// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"knative.dev/pkg/controller"
	logtesting "knative.dev/pkg/logging/testing"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const home = "entrypointer-system"

// A leader is a replica that leads, at a cluster of which the test plays the
// kubelets, and the watches.
type leader struct {
	*canaries
	t      *testing.T
	kube   *fake.Clientset
	clock  time.Time
	events *record.FakeRecorder
	again  time.Duration // when it wants to be called again; 0 if it doesn't
	made   int
}

// newCluster has the objects of config/auto and the configuration.
func newCluster(t *testing.T) *fake.Clientset {
	t.Helper()
	return fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: ProofsName, UID: "proofs"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: config.Name, UID: "config"}},
	)
}

func newLeader(t *testing.T, kube *fake.Clientset, nodes ...*corev1.Node) *leader {
	t.Helper()
	a := New(images)
	a.attach(logtesting.TestLogger(t), nil)
	a.Configure(&config.Config{Policy: pod.Policy{Delivery: pod.DeliveryAuto}})
	a.update(func(e *evidence) {
		e.permitted, e.synced, e.server = true, true, "v1.36.3"
		for _, n := range nodes {
			e.nodes[n.Name] = nodeOf(n)
		}
	})
	counts, err := newMetrics(noop.NewMeterProvider(), a.Verdict)
	require.NoError(t, err)
	l := &leader{t: t, kube: kube, clock: noon, events: record.NewFakeRecorder(100)}
	l.canaries = &canaries{
		auto: a, client: kube, own: home, events: l.events, metrics: counts,
		now: func() time.Time { return l.clock }, later: func(d time.Duration) { l.again = d },
	}
	require.NoError(t, l.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}))
	kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		l.made++
		return false, nil, nil
	})
	l.watch()
	return l
}

// watch brings what the ConfigMap says.
func (l *leader) watch() {
	cm, err := l.kube.CoreV1().ConfigMaps(home).Get(l.t.Context(), ProofsName, metav1.GetOptions{})
	require.NoError(l.t, err)
	l.auto.learnProofs(cm)
}

func (l *leader) see(nodes ...*corev1.Node) {
	for _, n := range nodes {
		l.auto.learnNode(l.t.Context(), nodeOf(n))
	}
}

func (l *leader) lose(name string) {
	l.auto.updateDuring(l.t.Context(), func(e *evidence) { delete(e.nodes, name) })
}

// round is one call of Reconcile, and what the watch brings then.
func (l *leader) round() {
	l.t.Helper()
	l.again = 0
	require.NoError(l.t, l.Reconcile(logtesting.TestContextWithLogger(l.t), key.String()))
	l.watch()
}

// running are the canaries by node.
func (l *leader) running() map[string]*corev1.Pod {
	list, err := l.kube.CoreV1().Pods(home).List(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	byNode := map[string]*corev1.Pod{}
	for i := range list.Items {
		byNode[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return byNode
}

// ends has a canary end, as its kubelet says.
func (l *leader) ends(node string, status corev1.PodStatus) {
	l.t.Helper()
	p := l.running()[node]
	require.NotNil(l.t, p, "a canary on node %q", node)
	p.Status = status
	_, err := l.kube.CoreV1().Pods(home).UpdateStatus(l.t.Context(), p, metav1.UpdateOptions{})
	require.NoError(l.t, err)
}

var (
	succeeded = corev1.PodStatus{Phase: corev1.PodSucceeded}
	notFound  = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "entrypoint", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 128, Reason: "StartError", Message: "exec: no such file",
		}},
	}}}
)

func (l *leader) requireReason(want Reason) {
	l.t.Helper()
	require.Equal(l.t, want, l.auto.Verdict().Reason, l.auto.Verdict().Message)
}

func (l *leader) told() (all []string) {
	for {
		select {
		case e := <-l.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestOneCanaryProvesAKindOfNodeForGood(t *testing.T) {
	kube := newCluster(t)
	l := newLeader(t, kube, listed("b", fits), listed("a", fits))
	l.requireReason(Unproven)
	l.round()
	p := l.running()["a"]
	require.NotNil(t, p)
	require.Len(t, l.running(), 1)
	require.Equal(t, canaryPoll, l.again)
	require.Equal(t, types.UID("proofs"), p.OwnerReferences[0].UID, "who deletes config/auto deletes it")
	l.round()
	l.requireReason(Unproven)
	l.ends("a", succeeded)
	l.round()
	l.requireReason(Proven)
	l.round()
	require.Empty(t, l.running(), "what is over is removed")
	require.Zero(t, l.again)
	require.Equal(t, 1, l.made)
	require.Equal(t, []string{
		`Normal Unproven delivery auto: pods get the init container: no canary has run yet for node "a" and 1 other (kubelet v1.36.3, containerd://2.3.5, Debian 12, amd64)`,
		`Normal Proven delivery auto: pods get image volumes: every kind of node has run the supervisor from an image volume`,
	}, l.told())

	// The injector is started again; another replica leads; nodes come and go.
	again := newLeader(t, kube, listed("a", fits), listed("c", fits))
	again.requireReason(Proven)
	again.round()
	again.see(listed("d", fits))
	again.lose("a")
	again.clock = again.clock.Add(240 * time.Hour)
	again.round()
	again.requireReason(Proven)
	require.Zero(t, again.made, "nothing has changed")
}

func TestANodeThatDoesNotFitTurnsItOffUntilItIsGone(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits))
	l.round()
	l.ends("a", succeeded)
	l.round()
	l.requireReason(Proven)
	l.told()
	l.see(listed("old", tooOld, notReady))
	l.requireReason(NodeUnfit)
	l.round()
	require.Equal(t, []string{`Warning NodeUnfit delivery auto: pods get the init container: node "old": kubelet v1.33.1 is older than 1.35.0`}, l.told())
	l.see(listed("old", fits))
	l.requireReason(Proven)
	l.see(listed("old", tooOld))
	l.requireReason(NodeUnfit)
	l.lose("old")
	l.requireReason(Proven)
	l.round()
	require.Len(t, l.told(), 1)
	require.Equal(t, 1, l.made)
}

func TestACanaryThatFailsIsTriedAgainOnAnotherNodeAfterAPause(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits), listed("b", fits))
	l.round()
	l.ends("a", notFound)
	l.round()
	l.requireReason(CanaryFailed)
	require.Contains(t, l.auto.Verdict().Message, `on node "a": container entrypoint ended with 128: StartError: exec: no such file`)
	l.round()
	require.Empty(t, l.running())
	require.Equal(t, firstPause, l.again)
	for range 5 {
		l.round() // whatever wakes it
	}
	require.Empty(t, l.running())
	l.clock = l.clock.Add(firstPause)
	l.round()
	require.Contains(t, l.running(), "b")
	l.requireReason(CanaryFailed)
	l.ends("b", notFound)
	l.round()
	l.round()
	require.Equal(t, 2*firstPause, l.again)

	// The pause outlives the injector.
	again := newLeader(t, l.kube, listed("a", fits), listed("b", fits))
	again.clock = l.clock
	again.round()
	require.Zero(t, again.made)
	again.clock = again.clock.Add(2 * firstPause)
	again.round()
	again.ends("a", succeeded)
	again.round()
	again.requireReason(Proven)
	require.Equal(t, 2, l.made-again.made, "in all, three")
}

func TestACanaryThatNeverRunsIsGivenUp(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits))
	l.round()
	for range 100 {
		l.clock = l.clock.Add(canaryPoll)
		l.round()
	}
	require.Len(t, l.running(), 1)
	l.requireReason(Unproven)
	l.ends("a", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "entrypoint", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: "mount.HostPath is empty"}},
	}}})
	l.clock = noon.Add(canaryPatience + time.Second)
	l.round()
	l.round()
	require.Empty(t, l.running())
	l.requireReason(CanaryFailed)
	require.Contains(t, l.auto.Verdict().Message, "it didn't run within 2m0s: container entrypoint: CreateContainerError: mount.HostPath is empty")
	require.Equal(t, 1, l.made)
}

func TestADeletedCanaryIsNotCreatedAgainAtOnce(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits))
	for range 20 {
		l.round()
		require.NoError(t, l.kube.CoreV1().Pods(home).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		for name := range l.running() {
			require.NoError(t, l.kube.CoreV1().Pods(home).Delete(t.Context(), l.running()[name].Name, metav1.DeleteOptions{}))
		}
	}
	require.Equal(t, 1, l.made)
	l.requireReason(Unproven)
}

func TestThreeCanariesRunAtATime(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 7 {
		s := fits
		s.OSImage = fmt.Sprint("OS ", i)
		nodes = append(nodes, listed(fmt.Sprint("node-", i), s))
	}
	l := newLeader(t, newCluster(t), nodes...)
	for range 20 {
		l.round()
		running := l.running()
		require.LessOrEqual(t, len(running), len(Canaries))
		for node := range running {
			l.ends(node, succeeded)
		}
	}
	l.requireReason(Proven)
	require.Equal(t, len(nodes), l.made)
}

func TestACanaryRunsOnANodeThatIsReadyOnly(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits, notReady))
	l.round()
	l.round()
	require.Zero(t, l.made)
	require.Zero(t, l.again, "the node brings it back")
	l.requireReason(Unproven)
	l.see(listed("a", fits))
	l.round()
	require.Equal(t, 1, l.made)
}

func TestACanaryWithoutAQuestionIsRemoved(t *testing.T) {
	for what, change := range map[string]func(*leader){
		"its node is gone":      func(l *leader) { l.lose("a") },
		"another delivery":      func(l *leader) { l.auto.Configure(&config.Config{}) },
		"the images are others": func(l *leader) { l.auto.update(func(e *evidence) { e.images.Entrypoint += "0" }) },
	} {
		l := newLeader(t, newCluster(t), listed("a", fits))
		l.round()
		require.Len(t, l.running(), 1)
		change(l)
		l.round()
		for _, p := range l.running() {
			require.NotEqual(t, fits.question(images), p.Annotations[questionAnnotation], what)
		}
	}
}

func TestThatACanaryIsRefusedIsAnAnswer(t *testing.T) {
	kube := newCluster(t)
	l := newLeader(t, kube, listed("a", fits))
	kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, Canaries[0], fmt.Errorf("a policy says no%s", strings.Repeat("!", 4096)))
	})
	l.round()
	l.requireReason(CanaryFailed)
	require.Contains(t, l.auto.Verdict().Message, "a policy says no")
	require.Less(t, len(l.auto.Verdict().String()), 1024, "it fits into an event")
	require.Equal(t, firstPause, l.again)
}

func TestAReplicaThatDoesNotLeadRunsNoCanary(t *testing.T) {
	l := newLeader(t, newCluster(t), listed("a", fits))
	l.Demote(reconciler.UniversalBucket())
	err := l.Reconcile(logtesting.TestContextWithLogger(t), key.String())
	require.True(t, controller.IsSkipKey(err), "%v", err)
	require.Zero(t, l.made)
	require.Empty(t, l.told())
	l.requireReason(Unproven)
}

func TestWithoutTheConfigMapNoCanaryRuns(t *testing.T) {
	kube := newCluster(t)
	l := newLeader(t, kube, listed("a", fits))
	require.NoError(t, kube.CoreV1().ConfigMaps(home).Delete(t.Context(), ProofsName, metav1.DeleteOptions{}))
	err := l.Reconcile(logtesting.TestContextWithLogger(t), key.String())
	require.ErrorContains(t, err, "ko apply -f config/auto")
	require.Zero(t, l.made, "what it proves couldn't be remembered")
}
