// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// aKind is one of nodes that can mount images, by its versions.
var aKind = corev1.NodeSystemInfo{
	KubeletVersion: "v1.36.0", ContainerRuntimeVersion: "containerd://2.3.0", OSImage: "nobody's", Architecture: "amd64", OperatingSystem: "linux",
}

// joins adds a node that no kubelet runs, until the end of the test or before, by
// leave. No pod that the scheduler places fits on it.
func joins(t *testing.T, info corev1.NodeSystemInfo) (name string, leave func()) {
	t.Helper()
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	n, err := cluster.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{NodeInfo: info, Capacity: none, Allocatable: none, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	leave = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, cluster.Kube.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}))
	})
	t.Cleanup(leave)
	return n.Name, leave
}

// forgetProofs has every kind of node to be proven anew.
func forgetProofs(t *testing.T) {
	t.Helper()
	_, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(t.Context(), autodelivery.ProofsName, types.MergePatchType,
		[]byte(`{"data":null}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// countCanaries returns what tells how many canaries were created since.
func countCanaries(t *testing.T) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var mu sync.Mutex
	seen := map[types.UID]string{}
	watch, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).Watch(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=canary"})
	require.NoError(t, err)
	go func() {
		for event := range watch.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok {
				mu.Lock()
				seen[p.UID] = p.Spec.NodeName
				mu.Unlock()
			}
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// waitForDelivery waits until all replicas bring the supervisor in this way.
func waitForDelivery(t *testing.T, namespace, want string) {
	t.Helper()
	start := time.Now()
	_, err := cluster.WaitForDelivery(t.Context(), namespace, want)
	require.NoError(t, err)
	t.Logf("pods get %s after %v", want, time.Since(start).Round(100*time.Millisecond))
}

// waitForSaying waits until an event of the ConfigMap and the metrics say why.
func waitForSaying(t *testing.T, since time.Time, reason autodelivery.Reason, says ...string) {
	t.Helper()
	eventually(t, 3*time.Minute, "an event "+string(reason), func() error {
		events, err := cluster.Kube.CoreV1().Events(framework.SystemNamespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=ConfigMap,involvedObject.name=" + config.Name + ",reason=" + string(reason),
		})
		if err != nil {
			return err
		}
		var others []string
		for _, e := range events.Items {
			lacks := func(part string) bool { return !strings.Contains(e.Message, part) }
			if !e.LastTimestamp.Time.Before(since.Truncate(time.Second)) && !slices.ContainsFunc(says, lacks) {
				t.Logf("%s: %s", e.Reason, e.Message)
				return nil
			}
			others = append(others, e.Message)
		}
		return fmt.Errorf("there are %q", others)
	})
	eventually(t, 3*time.Minute, "metrics of all replicas that say "+string(reason), func() error {
		replicas, err := cluster.InjectorPods(t.Context())
		if err != nil {
			return err
		}
		for _, replica := range replicas {
			page, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).ProxyGet("http", replica.Name, "9090", "/metrics", nil).DoRaw(t.Context())
			if err != nil {
				return err
			}
			at := strings.Index(string(page), "\nentrypointer_delivery_image_volumes{")
			if at < 0 {
				return fmt.Errorf("replica %q has no such metric", replica.Name)
			}
			line, _, _ := strings.Cut(string(page[at+1:]), "\n")
			value := " 0"
			if reason == autodelivery.Proven {
				value = " 1"
			}
			if !strings.Contains(line, `reason="`+string(reason)+`"`) || !strings.HasSuffix(line, value) {
				return fmt.Errorf("replica %q says %s", replica.Name, line)
			}
		}
		return nil
	})
}

// ranBy runs a pod, and looks how the supervisor came into it.
func ranBy(t *testing.T, namespace, name, want string) {
	t.Helper()
	createPod(t, namespace, askingPod(name, busybox(t, "main", "readlink", "/proc/1/exe")))
	done := waitUntilDone(t, namespace, name)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	require.Equal(t, want, framework.Delivery(done))
	require.Equal(t, "Injected by "+want, done.Annotations[pod.StatusAnnotation])
	require.Equal(t, "/entrypointer/bin/entrypoint\n", logs(t, namespace, name, "main"))
}

// needsImageVolumes skips where pods can mount images only behind a feature gate.
func needsImageVolumes(t *testing.T) {
	t.Helper()
	mounts, err := cluster.HasImageVolumes()
	require.NoError(t, err)
	if !mounts {
		t.Skipf("Kubernetes %s has image volumes only behind a feature gate", serverVersion(t))
	}
}

func TestUnderAutoPodsGetImageVolumesWhileEveryNodeIsProven(t *testing.T) {
	needsImageVolumes(t)
	forgetProofs(t)
	start, made := time.Now(), countCanaries(t)
	namespace := optedInNamespace(t)
	configureForNow(t, framework.DeliveryKey, string(pod.DeliveryAuto))
	waitForDelivery(t, namespace, framework.ImageVolume)
	waitForSaying(t, start, autodelivery.Proven)
	ranBy(t, namespace, "proven", framework.ImageVolume)
	require.Equal(t, 1, made())
	for what, change := range map[string]func(*corev1.PodSpec){
		"a virtual kubelet": func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: pod.VirtualKubeletTaint, Operator: corev1.TolerationOpExists}}
		},
		"users of its own": func(s *corev1.PodSpec) { s.HostUsers = new(false) },
	} {
		p := askingPod("extraordinary", busybox(t, "main", "true"))
		change(&p.Spec)
		seen, err := wouldBecome(t, namespace, p)
		require.NoError(t, err)
		require.Equal(t, framework.InitContainer, framework.Delivery(seen), what)
	}

	// A node that is too old.
	old := aKind
	old.KubeletVersion, old.ContainerRuntimeVersion = "v1.33.1", "containerd://1.7.27"
	start = time.Now()
	name, leave := joins(t, old)
	waitForDelivery(t, namespace, framework.InitContainer)
	waitForSaying(t, start, autodelivery.NodeUnfit, name, "kubelet v1.33.1 is older than 1.35.0")
	ranBy(t, namespace, "too-old", framework.InitContainer)
	start = time.Now()
	leave()
	waitForDelivery(t, namespace, framework.ImageVolume)
	waitForSaying(t, start, autodelivery.Proven)
	ranBy(t, namespace, "gone", framework.ImageVolume)
	require.Equal(t, 1, made(), "what was proven holds")

	// A node of which only its versions are known: no canary ever runs there.
	start = time.Now()
	name, leave = joins(t, aKind)
	waitForDelivery(t, namespace, framework.InitContainer)
	waitForSaying(t, start, autodelivery.Unproven, name)
	eventually(t, time.Minute, "a canary on node "+name, func() error {
		if made() < 2 {
			return fmt.Errorf("%d were made", made())
		}
		return nil
	})
	ranBy(t, namespace, "unproven", framework.InitContainer)
	leave()
	waitForDelivery(t, namespace, framework.ImageVolume)
	require.Equal(t, 2, made())
	waitForNoCanary(t)
}

func TestANamespaceMayAskForAutoItself(t *testing.T) {
	needsImageVolumes(t)
	ns := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: string(pod.DeliveryAuto)})
	waitForDelivery(t, ns.Name, framework.ImageVolume)
	ranBy(t, ns.Name, "asked", framework.ImageVolume)
	other := optedInNamespace(t)
	seen, err := wouldBecome(t, other, askingPod("silent", busybox(t, "main", "true")))
	require.NoError(t, err)
	require.Equal(t, framework.InitContainer, framework.Delivery(seen), "the operator's delivery counts elsewhere")
	_, err = annotate(t.Context(), ns.Name, "null")
	require.NoError(t, err)
	waitForNoCanary(t)
}

func waitForNoCanary(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "canaries to be removed", func() error {
		list, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=canary"})
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("%q is there", list.Items[0].Name)
		}
		return err
	})
}

// withFlag rolls the injector out with another value of a flag, and returns the one of
// before.
func withFlag(ctx context.Context, t *testing.T, flag, value string) (before string) {
	t.Helper()
	deployments := cluster.Kube.AppsV1().Deployments(framework.SystemNamespace)
	d, err := deployments.Get(ctx, framework.Injector, metav1.GetOptions{})
	require.NoError(t, err)
	args := d.Spec.Template.Spec.Containers[0].Args
	at := slices.Index(args, flag) + 1
	require.Positive(t, at)
	before, args[at] = args[at], value
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}})
	require.NoError(t, err)
	_, err = deployments.Patch(ctx, framework.Injector, types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(ctx, framework.SystemNamespace, framework.Injector))
	return before
}

// heardAsking are the warnings for a namespace that asks for a delivery.
func heardAsking(t *testing.T, delivery pod.Delivery) []string {
	t.Helper()
	var heard warnings
	client, err := typedcorev1.NewForConfig(heardBy(&heard))
	require.NoError(t, err)
	_, err = client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-", Annotations: map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: string(delivery)},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	return heard
}

// An image that has no entrypoint in it: its volume is mounted, and nothing runs from it.
func TestACanaryThatFailsKeepsAutoOffUntilThereIsAnotherImage(t *testing.T) {
	needsImageVolumes(t)
	forgetProofs(t)
	namespace := optedInNamespace(t)
	start := time.Now()
	configureForNow(t, framework.DeliveryKey, string(pod.DeliveryAuto))
	waitForDelivery(t, namespace, framework.ImageVolume)

	before := withFlag(t.Context(), t, "-entrypoint-image", copierImage(t))
	restore := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		withFlag(ctx, t, "-entrypoint-image", before)
	})
	t.Cleanup(restore)
	waitForSaying(t, start, autodelivery.CanaryFailed, "container entrypoint ended with 128")
	waitForDelivery(t, namespace, framework.InitContainer)
	ranBy(t, namespace, "failed", framework.InitContainer)

	// Replicas that have never proven anything know what others have.
	made := countCanaries(t)
	restore()
	waitForDelivery(t, namespace, framework.ImageVolume)
	ranBy(t, namespace, "proven", framework.ImageVolume)
	require.LessOrEqual(t, made(), 2, "those that replicas on their way out tried again")
	waitForNoCanary(t)
}

func TestWithoutItsRightsAutoIsTheInitContainer(t *testing.T) {
	needsImageVolumes(t)
	namespace := optedInNamespace(t)
	configureForNow(t, framework.DeliveryKey, string(pod.DeliveryAuto))
	waitForDelivery(t, namespace, framework.ImageVolume)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := framework.Run(ctx, "ko", "apply", "-f", "config/auto")
		require.NoError(t, err)
	})
	start := time.Now()
	_, err := framework.Run(t.Context(), "ko", "delete", "-f", "config/auto")
	require.NoError(t, err)
	waitForDelivery(t, namespace, framework.InitContainer)
	waitForSaying(t, start, autodelivery.NotPermitted, "ko apply -f config/auto")
	eventually(t, time.Minute, "a namespace that asks for auto to be warned", func() error {
		heard := heardAsking(t, pod.DeliveryAuto)
		if !slices.ContainsFunc(heard, func(text string) bool { return strings.Contains(text, "run: ko apply -f config/auto") }) {
			return fmt.Errorf("%q was heard", heard)
		}
		return nil
	})
	ranBy(t, namespace, "without", framework.InitContainer)

	// Replicas that never had the rights serve as well, and use them when they come.
	require.NoError(t, cluster.KillInjector(t.Context(), 1))
	require.NoError(t, cluster.WaitForInjector(t.Context()))
	waitForDelivery(t, namespace, framework.InitContainer)
	made := countCanaries(t)
	_, err = framework.Run(t.Context(), "ko", "apply", "-f", "config/auto")
	require.NoError(t, err)
	waitForDelivery(t, namespace, framework.ImageVolume)
	require.Equal(t, 1, made())
	ranBy(t, namespace, "with", framework.ImageVolume)
	waitForNoCanary(t)
}
