// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// workers are the nodes that the scheduler places any pod on: no control plane that is
// kept for itself, and none that a test has made up.
func workers(t *testing.T) []corev1.Node {
	t.Helper()
	nodes, err := cluster.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: corev1.LabelHostname})
	require.NoError(t, err)
	found := slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool {
		require.False(t, n.Spec.Unschedulable, "node %q is left by a drain that was cut short: kubectl uncordon %s", n.Name, n.Name)
		return len(n.Spec.Taints) > 0
	})
	require.NotEmpty(t, found, "every node has a taint")
	return found
}

func aWorker(t *testing.T) corev1.Node {
	t.Helper()
	return workers(t)[0]
}

// severalWorkers are those of a cluster that has more than one.
func severalWorkers(t *testing.T) []corev1.Node {
	t.Helper()
	found := workers(t)
	if len(found) < 2 {
		t.Skip("pods have only one node here; make e2e CLUSTER=kind has two")
	}
	return found
}

// on places a pod on a node.
func on(node corev1.Node, p *corev1.Pod) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Labels[corev1.LabelHostname]}
	return p
}

// reachableAddress is where nodes, and what runs on them, find this machine.
func reachableAddress(t *testing.T) net.IP {
	t.Helper()
	address, err := cluster.OwnAddress(t.Context())
	require.NoError(t, err)
	return address
}

// A drain evicts a Deployment's pod and an injector. It is kubectl's, of these pods only:
// the cluster goes on.
func TestWhileANodeIsDrainedNoPodIsRefusedAndThoseOfItEndAndComeBackWrapped(t *testing.T) {
	severalWorkers(t)
	injectors, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, injectors)
	node := injectors[0].Spec.NodeName
	namespace := optedInNamespace(t)
	d := clockDeployment(t, "drained", 4)
	spread := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.Spec.Selector}
	taints := corev1.NodeInclusionPolicyHonor // a node that is drained has one
	spread.NodeTaintsPolicy = &taints
	d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spread}
	createDeployment(t, namespace, d)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "drained"))
	require.NotEmpty(t, podsOn(t, namespace, node))

	ends := watchPods(t, namespace, func(p *corev1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if ended := s.State.Terminated; ended != nil && ended.ExitCode == 137 {
				return fmt.Errorf("container %q of pod %q was killed: it heard no SIGTERM", s.Name, p.Name)
			}
		}
		return nil
	})
	steady := admitSteadily(t, namespace)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_, err := framework.Run(ctx, "kubectl", "uncordon", node)
		require.NoError(t, err)
	})
	for _, selector := range []string{"app=drained", "app.kubernetes.io/name=" + framework.Injector} {
		_, err = framework.Run(t.Context(), "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector="+selector, "--timeout=3m")
		require.NoError(t, err)
	}
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "drained"))
	require.NoError(t, cluster.WaitForDeployment(t.Context(), framework.SystemNamespace, framework.Injector))
	admitted, refusals := steady.stop()
	t.Logf("%d pods were admitted meanwhile", admitted)
	require.Empty(t, refusals)
	require.Positive(t, admitted)
	require.Greater(t, ends.stop(), 4, "those that came, and those that came instead")

	require.Empty(t, podsOn(t, namespace, node))
	require.Empty(t, podsOn(t, framework.SystemNamespace, node))
	after, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=drained"})
	require.NoError(t, err)
	require.Len(t, after.Items, 4)
	for i := range after.Items {
		requireWrapped(t, &after.Items[i], "main")
	}
}

// podsOn are the names of a namespace's pods on a node.
func podsOn(t *testing.T, namespace, node string) (names []string) {
	t.Helper()
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	require.NoError(t, err)
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

func TestPodsOnEveryNodeMountTheSameClaimAtOnce(t *testing.T) {
	t.Parallel()
	nodes := severalWorkers(t)
	namespace := claimNamespace(t, sharedClass(t), pod.OwnedPods)
	waitForClaim(t, namespace, waitForColumns(t, namespace, "True", ""))
	for _, node := range nodes {
		createPod(t, namespace, on(node, restrictedPod("on-"+node.Name, busybox(t, "main", "sleep", "3600"))))
	}
	for _, node := range nodes {
		p := waitUntilRunning(t, namespace, "on-"+node.Name)
		require.Equal(t, node.Name, p.Spec.NodeName)
		require.Equal(t, "Injected by claim", p.Annotations[pod.StatusAnnotation])
		require.Equal(t, pod.EntrypointPath+"\n", execIn(t, namespace, p.Name, "main", "readlink", "/proc/1/exe"))
	}
}

func TestLogsOfEveryNodeAreRead(t *testing.T) {
	t.Parallel()
	nodes := severalWorkers(t)
	namespace, token := logsNamespace(t, "stream")
	for _, node := range nodes {
		createPod(t, namespace, on(node, askingPod("on-"+node.Name, busybox(t, "main", "echo", "printed on "+node.Name))))
	}
	client := logService(t)
	for _, node := range nodes {
		require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "on-"+node.Name).Status.Phase)
		texts := client.stored(token, namespace, "on-"+node.Name, "main")
		require.Equal(t, "printed on "+node.Name+"\n", texts["main stdout"])
	}
}
