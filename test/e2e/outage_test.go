// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/serve"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// The tests in this file take the injector away from the whole cluster, so none
// of them is parallel.

// takeDown removes the injector, and returns how to bring it back, which
// happens at the end of the test in any case.
func takeDown(t *testing.T) (bringBack func()) {
	t.Helper()
	scaleUp, err := cluster.RemoveInjector(t.Context())
	bringBack = sync.OnceFunc(func() {
		// The test's own context may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		require.NoError(t, scaleUp(ctx))
		require.NoError(t, cluster.WaitForInjector(ctx))
	})
	t.Cleanup(bringBack)
	require.NoError(t, err)
	eventually(t, 3*time.Minute, "the injector to be gone", func() error {
		pods, err := cluster.InjectorPods(t.Context())
		if err == nil && len(pods) > 0 {
			return fmt.Errorf("%d of its pods are there", len(pods))
		}
		return err
	})
	return bringBack
}

func TestANamespaceThatDidNotOptInIsUntouchedWhileTheInjectorIsDown(t *testing.T) {
	namespace := plainNamespace(t)
	takeDown(t)
	requireRunsAsWritten(t, namespace)
}

func TestAPodOfAnOptedInNamespaceNeverRunsUnwrappedWhileTheInjectorIsDown(t *testing.T) {
	namespace := optedInNamespace(t)
	bringBack := takeDown(t)
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), askingPod("alone", busybox(t, "main", "true")), metav1.CreateOptions{})
	require.ErrorContains(t, err, framework.PodWebhook, "the error says whose webhook fails")
	createDeployment(t, namespace, clockDeployment(t, "patient", 2))
	eventually(t, time.Minute, "the ReplicaSet to have tried in vain", func() error {
		events, err := cluster.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err == nil && len(events.Items) == 0 {
			return fmt.Errorf("it has not failed to create a pod")
		}
		return err
	})
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items, "pods that were created while the injector was down")

	bringBack()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "patient"))
	pods, err = cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range pods.Items {
		requireWrapped(t, &pods.Items[i], "main")
	}
}

// Of a namespace that opted in, only the pods wait that may be wrapped, or that
// the injector has something to say of.
func TestAPodThatWouldNotBeWrappedStartsWhileTheInjectorIsDown(t *testing.T) {
	namespace := optedInNamespace(t)
	takeDown(t)
	createPod(t, namespace, plainPod("unrelated", busybox(t, "main", "true")))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "unrelated").Status.Phase)
	warned := plainPod("warned", busybox(t, "main", "true"))
	warned.Annotations = map[string]string{"mode.entrypointer.dev/main": "exec"}
	_, err := wouldBecome(t, namespace, warned)
	require.ErrorContains(t, err, framework.PodWebhook)
}

func TestAPodOfANamespaceThatWasAnnotatedWhileTheInjectorIsDownIsRefused(t *testing.T) {
	namespace := plainNamespace(t)
	bringBack := takeDown(t)
	_, err := annotate(t.Context(), namespace, `"true"`)
	require.NoError(t, err)
	step := plainPod("step", busybox(t, "step-only", "true"))
	step.Labels = map[string]string{"tekton.dev/taskRun": "any"}
	revision := plainPod("revision", busybox(t, "user-container", "true"))
	revision.Labels = map[string]string{"serving.knative.dev/revision": "any"}
	for _, p := range []*corev1.Pod{askingPod("asks", busybox(t, "main", "true")), step, revision} {
		eventually(t, time.Minute, "the API server to see the annotation", func() error {
			_, err := wouldBecome(t, namespace, p)
			if err == nil {
				return fmt.Errorf("pod %q would run unwrapped", p.Name)
			}
			require.ErrorContains(t, err, "would run without its supervisor: namespace \""+namespace+"\" is annotated")
			require.ErrorContains(t, err, "the injector sets the label as soon as it runs")
			return nil
		})
	}
	_, err = wouldBecome(t, namespace, plainPod("unrelated", busybox(t, "main", "true")))
	require.NoError(t, err)
	bringBack()
	waitForLabel(t, namespace, true)
	waitUntilSelected(t, namespace, true)
}

func TestANamespaceThatWasAnnotatedWhileTheInjectorWasDownIsLabelledOnceItIsBack(t *testing.T) {
	optsIn, optsOut := plainNamespace(t), optedInNamespace(t)
	bringBack := takeDown(t)
	ns, err := annotate(t.Context(), optsIn, `"true"`)
	require.NoError(t, err, "the injector is never in the way of a namespace")
	require.NotContains(t, ns.Labels, pod.InjectAnnotation)
	ns, err = annotate(t.Context(), optsOut, "null")
	require.NoError(t, err)
	require.Contains(t, ns.Labels, pod.InjectAnnotation)
	bringBack()
	waitForLabel(t, optsIn, true)
	waitForLabel(t, optsOut, false)
}

// An operator can write what the injector can't read while it is down, and so
// does a downgrade, after which nobody knows a key any more.
func TestAnInjectorThatCanNotReadItsConfigurationStartsAndWrapsPods(t *testing.T) {
	namespace := optedInNamespace(t)
	bringBack := takeDown(t)
	// All at once, since none can be written, or taken back, beside another that is wrong.
	patchConfig := func(ctx context.Context, patch string) {
		_, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(ctx, config.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	patchConfig(t.Context(), `{"data":{"key-of-a-later-release":"any","delivery":"sidecar","allowed-registries":"https://registry.example"}}`)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		patchConfig(ctx, `{"data":{"key-of-a-later-release":null,"delivery":null,"allowed-registries":null}}`)
	})
	bringBack()
	requireWrapped(t, createPod(t, namespace, askingPod("wrapped", busybox(t, "main", "true"))), "main")
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "wrapped").Status.Phase)
	_, err := wouldBecome(t, namespace, askingPod("looked-up", busybox(t, "main")))
	require.ErrorContains(t, err, "NotAllowed", "the strictest list of registries is in force")
	text, err := framework.Run(t.Context(), "kubectl", "-n", framework.SystemNamespace, "logs", "-l", framework.InjectorSelector, "--tail=-1")
	require.NoError(t, err)
	for _, says := range []string{
		`key \"key-of-a-later-release\": it is unknown`, `key \"delivery\": \"sidecar\"`, `its strictest value is in force`,
	} {
		require.Contains(t, string(text), says)
	}
}

func TestNobodyIsRefusedWhileCertificatesAreReplaced(t *testing.T) {
	steady := admitSteadily(t, optedInNamespace(t))
	secrets := cluster.Kube.CoreV1().Secrets(framework.SystemNamespace)
	before, err := secrets.Get(t.Context(), config.ServedSecret, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, secrets.Delete(t.Context(), config.ServedSecret, metav1.DeleteOptions{}))
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		before.ResourceVersion, before.UID = "", ""
		_, err := secrets.Create(ctx, before, metav1.CreateOptions{})
		t.Logf("creating them again after a failure: %v", err)
	})
	eventually(t, time.Minute, "the Secret to be there, and filled", func() error {
		after, err := secrets.Get(t.Context(), config.ServedSecret, metav1.GetOptions{})
		if err == nil && (after.UID == before.UID || len(after.Data) == 0) {
			return fmt.Errorf("Secret %s has %d keys", after.UID, len(after.Data))
		}
		return err
	})
	time.Sleep(serve.Overlap + 15*time.Second) // until the new ones are served
	admitted, refusals := steady.stop()
	t.Logf("%d pods were admitted meanwhile", admitted)
	require.Empty(t, refusals)
	require.Greater(t, admitted, 100)
}

func TestKillingAllInjectorsDuringABurstOfPodsLosesNothing(t *testing.T) {
	const most = 10
	plainNS, optedInNS := plainNamespace(t), optedInNamespace(t)
	inPlain := watchPods(t, plainNS, func(p *corev1.Pod) error {
		if p.Status.Phase == corev1.PodFailed {
			return fmt.Errorf("pod %q failed: %s", p.Name, containerStates(p))
		}
		return framework.CheckNotWrapped(p)
	})
	inOptedIn := watchPods(t, optedInNS, func(p *corev1.Pod) error {
		if framework.CheckNotWrapped(p) == nil {
			return fmt.Errorf("pod %q is not wrapped", p.Name)
		}
		return nil
	})

	createDeployment(t, plainNS, clockDeployment(t, "burst", 1))
	createDeployment(t, optedInNS, clockDeployment(t, "burst", 1))
	for replicas := int32(2); replicas <= most; replicas++ {
		if replicas == 4 {
			require.NoError(t, cluster.KillInjector(t.Context(), 0))
		}
		require.NoError(t, cluster.Scale(t.Context(), plainNS, "burst", replicas))
		require.NoError(t, cluster.Scale(t.Context(), optedInNS, "burst", replicas))
		time.Sleep(500 * time.Millisecond) // some before the kill, some while nobody serves
	}

	require.NoError(t, cluster.WaitForDeployment(t.Context(), plainNS, "burst"))
	require.NoError(t, cluster.WaitForDeployment(t.Context(), optedInNS, "burst"))
	require.Equal(t, most, inPlain.stop(), "pods that were ever seen in the namespace that did not opt in")
	require.Equal(t, most, inOptedIn.stop(), "pods that were ever seen in the namespace that opted in")
	events, err := cluster.Kube.CoreV1().Events(optedInNS).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
	require.NoError(t, err)
	t.Logf("meanwhile, pods were refused %d times", refusals(events.Items))
	require.NoError(t, cluster.WaitForInjector(t.Context()))
}

func refusals(events []corev1.Event) (sum int32) {
	for _, e := range events {
		sum += max(e.Count, 1)
	}
	return sum
}

// podWatch looks at every state of every pod of a namespace.
type podWatch struct {
	t        *testing.T
	cancel   context.CancelFunc
	done     chan struct{}
	names    map[string]bool
	problems []string
}

func watchPods(t *testing.T, namespace string, check func(*corev1.Pod) error) *podWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := cluster.Kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	w := &podWatch{t: t, cancel: cancel, done: make(chan struct{}), names: map[string]bool{}}
	go func() {
		defer close(w.done)
		for event := range watch.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			w.names[p.Name] = true
			if err := check(p); err != nil {
				w.problems = append(w.problems, err.Error())
			}
		}
	}()
	return w
}

// stop ends the test if any pod was not as it should be, and returns how many there were.
func (w *podWatch) stop() int {
	w.t.Helper()
	w.cancel()
	<-w.done
	require.Empty(w.t, strings.Join(w.problems, "\n"))
	return len(w.names)
}
