// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/autodelivery"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// hostileNodes is how many nodes join at a time. Clusters have address ranges for 256.
const hostileNodes = 100

// join adds nodes that no kubelet runs and no pod is placed on, until the end of the
// test or before, by leave.
func join(t *testing.T, n int, info func(i int) corev1.NodeSystemInfo) (leave func()) {
	t.Helper()
	leave = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, cluster.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours + "=true"}))
	}
	t.Cleanup(leave)
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	require.NoError(t, inBulk(n, func(i int) error {
		// Its name comes after that of a real one.
		_, err := cluster.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "zz-e2e-", Labels: map[string]string{corev1.LabelOSStable: "linux", ours: "true"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: ours, Effect: corev1.TaintEffectNoExecute}}},
			Status: corev1.NodeStatus{NodeInfo: info(i), Capacity: none, Allocatable: none, Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}}},
		}, metav1.CreateOptions{})
		return err
	}))
	return leave
}

// proofs are what the ConfigMap holds.
func proofs(t *testing.T) map[string]string {
	t.Helper()
	held, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Get(t.Context(), autodelivery.ProofsName, metav1.GetOptions{})
	require.NoError(t, err)
	return held.Data
}

// setProofs writes them by hand.
func setProofs(t *testing.T, data map[string]string) {
	t.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/data", "value": data}})
	require.NoError(t, err)
	_, err = cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(t.Context(), autodelivery.ProofsName, types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestNodesThatComeInHundredsAndGarbageAmongTheProofsTurnAutoOffAndNotForGood(t *testing.T) {
	needsImageVolumes(t)
	before := restarts(t)
	watching, stop := context.WithCancel(t.Context())
	peak := watchMemory(watching, t)
	forgetProofs(t)
	namespace := optedInNamespace(t)
	configureForNow(t, framework.DeliveryKey, string(pod.DeliveryAuto))
	waitForDelivery(t, namespace, framework.ImageVolume)
	good := proofs(t)

	ordinary, err := cluster.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "!" + ours})
	require.NoError(t, err)
	kind := ordinary.Items[0].Status.NodeInfo
	leave := join(t, 1, func(int) corev1.NodeSystemInfo { return kind })
	garbage := map[string]string{"no-json": strings.Repeat("<", 400_000)}
	for question, text := range good {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &entry))
		entry["result"], entry["canaries"], entry["message"], entry["at"] = "Failed", -1, strings.Repeat("x", 1024), "9000-01-01T00:00:00Z"
		changed, err := json.Marshal(entry)
		require.NoError(t, err)
		garbage[question] = string(changed)
	}
	setProofs(t, garbage)
	waitForDelivery(t, namespace, framework.ImageVolume)
	require.NotContains(t, proofs(t), "no-json")
	leave()

	good = proofs(t)
	long := strings.Repeat("9.", 20_000)
	leave = join(t, hostileNodes, func(i int) corev1.NodeSystemInfo {
		info := aKind
		info.OSImage = fmt.Sprintf("%d %s", i, long)
		switch i % 10 {
		case 0:
			info.KubeletVersion = "v1.36.0-" + long
		case 1:
			info.KubeletVersion = long
		case 2:
			info.ContainerRuntimeVersion = "containerd://" + strings.Repeat("9", 40_000)
		case 3:
			info.ContainerRuntimeVersion = "\n://\t\u202e"
		}
		return info
	})
	waitForDelivery(t, namespace, framework.InitContainer)
	ranBy(t, namespace, "meanwhile", framework.InitContainer)
	list, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=canary"})
	require.NoError(t, err)
	require.LessOrEqual(t, len(list.Items), len(autodelivery.Canaries))
	leave()
	waitForDelivery(t, namespace, framework.ImageVolume)
	ranBy(t, namespace, "afterwards", framework.ImageVolume)
	now := proofs(t)
	for question, text := range good {
		require.Equal(t, text, now[question], "what was proven holds")
	}
	require.Less(t, len(fmt.Sprint(slices.Collect(maps.Values(now)))), 1<<17)
	waitForNoCanary(t)
	stop()
	t.Logf("the injector used %d MiB at most", peak()>>20)
	requireNoReplicaDied(t, before)
	require.Less(t, peak(), int64(halfOfTheLimit))
}

// Somebody who may create pods beside the injector takes the names of canaries.
func TestPodsThatPassForCanariesProveNothingAndAreRemoved(t *testing.T) {
	needsImageVolumes(t)
	namespace := optedInNamespace(t)
	configureForNow(t, framework.DeliveryKey, string(pod.DeliveryAuto))
	waitForDelivery(t, namespace, framework.ImageVolume)
	var question string
	for question = range proofs(t) {
		break
	}
	for _, name := range autodelivery.Canaries {
		forged := restrictedPod(name, busybox(t, "main", "sleep", "3600"))
		forged.Annotations = map[string]string{"entrypointer.dev/question": question}
		createPod(t, framework.SystemNamespace, forged)
	}
	forgetProofs(t)
	eventually(t, time.Minute, "pods to be those of a canary", func() error {
		list, err := cluster.Kube.CoreV1().Pods(framework.SystemNamespace).List(t.Context(), metav1.ListOptions{})
		for _, p := range list.Items {
			if slices.Contains(autodelivery.Canaries, p.Name) && p.Spec.Containers[0].Name == "main" {
				err = errors.Join(err, fmt.Errorf("pod %q is there", p.Name))
			}
		}
		return err
	})
	waitForDelivery(t, namespace, framework.ImageVolume)
	waitForNoCanary(t)
}
