// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

//go:embed testdata/foreign_requests.py
var foreignRequests string

// attack runs a pod that sends an injector what no API server sends, for so many seconds.
func attack(t *testing.T, victim string, seconds int, paths ...string) (foreign, name string) {
	t.Helper()
	foreign = plainNamespace(t)
	command := []string{"python3", "-c", foreignRequests, "entrypointer-webhook." + framework.SystemNamespace + ".svc", victim, strconv.Itoa(seconds)}
	attacker := createPod(t, foreign, plainPod("attacker", corev1.Container{Name: "main", Image: image(t, "python"), Command: append(command, paths...)}))
	waitForPhase(t, foreign, attacker.Name, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
	return foreign, attacker.Name
}

// A foreign pod sends requests to the webhook's Service, and a tenant has the API server
// send them, while a tenant that knows nothing of them creates pods.
func TestWhatRequestsBecomeInMemoryIsBounded(t *testing.T) {
	hostile, modest := optedInNamespace(t), optedInNamespace(t)
	before := restarts(t)
	watching, stop := context.WithCancel(t.Context())
	peak := watchMemory(watching, t)

	foreign, attacker := attack(t, hostile, 40, "/pods?timeout=10s", "/pods?timeout=10s", "/pods?timeout=30s", "/namespaces", "/config")
	var flood sync.WaitGroup
	for name, crowd := range crowdedPods() {
		flood.Go(func() {
			for range 4 {
				_, err := wouldBecome(t, hostile, crowd)
				if err == nil || !strings.Contains(err.Error(), name+`" has more than 10000 entries`) {
					t.Errorf("a pod with many %s: %v", name, err)
				}
			}
		})
	}
	var took []time.Duration
	for i := range 100 {
		p := askingPod(fmt.Sprint("modest-", i), corev1.Container{Name: "main", Image: "busybox", Command: []string{"true"}})
		if i%10 == 0 { // a long one
			p.Spec.Containers[0].Args = slices.Repeat([]string{strings.Repeat("x", 1000)}, 200)
		}
		start := time.Now()
		_, err := wouldBecome(t, modest, p)
		took = append(took, time.Since(start))
		require.NoError(t, err, "another namespace's pod, %d after the start", i)
		time.Sleep(200 * time.Millisecond)
	}
	flood.Wait()
	got := ranMain(t, foreign, attacker)
	stop()
	slices.Sort(took)
	t.Logf("the injector used %d MiB at most; another namespace's pods took %v (median), %v (p99); the foreign pod saw %s",
		peak()>>20, framework.Percentile(took, 50), framework.Percentile(took, 99), got.Log)
	require.Equal(t, "Completed", got.Reason, got.Log)
	require.Contains(t, got.Log, "200 refused")
	require.Equal(t, before, restarts(t), "no replica died")
	require.Less(t, peak(), int64(halfOfTheLimit))
}

// The API server of the cluster shows a certificate of this CA.
func TestWithTheCAOfTheAPIServerAForeignPodIsRefused(t *testing.T) {
	path := os.Getenv("E2E_WEBHOOK_CLIENT_CA")
	if path == "" {
		t.Skip("E2E_WEBHOOK_CLIENT_CA (a file) names no CA: the API server shows webhooks no certificate")
	}
	ca, err := os.ReadFile(path)
	require.NoError(t, err)
	modest := optedInNamespace(t)
	undo, err := configure(t, "api-server-ca", string(ca), metav1.UpdateOptions{})
	require.NoError(t, err)
	defer func() {
		_, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Patch(t.Context(), config.Name, types.MergePatchType, undo, metav1.PatchOptions{})
		require.NoError(t, err)
	}()
	eventually(t, patience, "every replica to refuse a caller without a certificate", func() error {
		foreign, attacker := attack(t, modest, 2, "/pods", "/namespaces")
		if got := ranMain(t, foreign, attacker); strings.Contains(got.Log, "200") {
			return fmt.Errorf("a foreign pod saw %s", got.Log)
		}
		return nil
	})
	foreign, attacker := attack(t, modest, 10, "/pods", "/namespaces")
	for i := range 20 {
		_, err := wouldBecome(t, modest, askingPod(fmt.Sprint("modest-", i), corev1.Container{Name: "main", Image: "busybox", Command: []string{"true"}}))
		require.NoError(t, err, "the API server is answered")
		time.Sleep(100 * time.Millisecond)
	}
	got := ranMain(t, foreign, attacker)
	require.Equal(t, "Completed", got.Reason, got.Log)
	require.Contains(t, got.Log, "'403'")
	require.NotContains(t, got.Log, "200", "nothing else is answered")
}

// crowdedPods are pods with lists of as many entries as a request has room for, by the
// names of the lists. Their entries are valid: with invalid ones, the API server's own
// validation would take minutes.
func crowdedPods() map[string]*corev1.Pod {
	crowded := func(change func(*corev1.Pod)) *corev1.Pod {
		p := askingPod("crowded", corev1.Container{Name: "main", Image: "busybox", Command: []string{"true"}})
		change(p)
		return p
	}
	return map[string]*corev1.Pod{
		"spec.tolerations": crowded(func(p *corev1.Pod) {
			p.Spec.Tolerations = slices.Repeat([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 100_000)
		}),
		"spec.containers[0].args": crowded(func(p *corev1.Pod) { p.Spec.Containers[0].Args = make([]string, 700_000) }),
		"spec.containers[0].env": crowded(func(p *corev1.Pod) {
			for i := range 12_000 {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("E", i)})
			}
		}),
		"metadata.annotations": crowded(func(p *corev1.Pod) {
			for i := range 12_000 {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, fmt.Sprint("k", i), "")
			}
		}),
	}
}
