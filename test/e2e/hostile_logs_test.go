// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

//go:embed testdata/foreign_log_requests.py
var foreignLogRequests string

// halfOfTheLogServicesLimit is half of what the log service may use
// (config/logs/500-logs.yaml), in bytes.
const halfOfTheLogServicesLimit = 256 << 20

// A tenant's pods hold thousands of connections and requests without a body, and create
// streams without end, while another tenant's print and are read, and while the API server
// asks.
func TestWhatForeignPodsHoldOfTheLogServiceCostsNobodyElse(t *testing.T) {
	const attackers, seconds, lines = 3, 40, 300
	service := logService(t)
	replica, err := cluster.LogServicePod(t.Context())
	require.NoError(t, err)
	hostile := plainNamespace(t)
	modest, reader := logsNamespace(t, "stream")

	var names []string
	for i := range attackers {
		var tokens []string
		for j := range 3 {
			idle := createPod(t, hostile, plainPod(fmt.Sprintf("idle-%d-%d", i, j), busybox(t, "main", forever...)))
			tokens = append(tokens, tokenOf(t, hostile, "default", endpoint.Audience, idle))
		}
		command := append([]string{"python3", "-c", foreignLogRequests, "logs." + endpoint.Namespace + ".svc", strconv.Itoa(seconds), "900"}, tokens...)
		attacker := createPod(t, hostile, plainPod(fmt.Sprint("attacker-", i), corev1.Container{Name: "main", Image: image(t, "python"), Command: command}))
		names = append(names, attacker.Name)
	}
	for _, name := range names {
		waitForPhase(t, hostile, name, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	var most int64
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for watching.Err() == nil {
			if now, err := cluster.WorkingSet(watching, replica.Spec.NodeName, replica.Name); err == nil {
				most = max(most, now)
			}
			time.Sleep(time.Second)
		}
	}()

	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do printf 'line %%04d\n' $i; i=$((i+1)); sleep 0.1; done; echo $i >&2`, lines)
	for i := range 4 {
		createPod(t, modest, askingPod(fmt.Sprint("prints-", i), busybox(t, "main", "sh", "-c", script)))
	}
	var slowest time.Duration
	for range 30 {
		start := time.Now()
		_, err := cluster.Kube.Discovery().RESTClient().Get().AbsPath("/apis/" + endpoint.Group + "/" + endpoint.Version).DoRaw(t.Context())
		require.NoError(t, err, "the API server asks")
		slowest = max(slowest, time.Since(start))
		time.Sleep(500 * time.Millisecond)
	}
	var want strings.Builder
	for line := range lines {
		fmt.Fprintf(&want, "line %04d\n", line)
	}
	for i := range 4 {
		name := fmt.Sprint("prints-", i)
		waitUntilDone(t, modest, name)
		require.Equal(t, want.String(), service.stored(reader, modest, name, "main")["main stdout"], name)
		service.requireAccounted(reader, modest, name)
	}
	var saw []string
	for _, name := range names {
		got := ranMain(t, hostile, name)
		require.Equal(t, "Completed", got.Reason, got.Log)
		require.Contains(t, got.Log, "silent connection closed")
		require.Contains(t, got.Log, "declared 200")
		saw = append(saw, strings.TrimSpace(got.Log))
	}
	stop()
	<-watched
	t.Logf("the log service used %d MiB at most; discovery by the API server took %v at most; the attackers saw %s", most>>20, slowest, strings.Join(saw, ", "))
	after, err := cluster.LogServicePod(t.Context())
	require.NoError(t, err)
	require.Equal(t, replica.UID, after.UID)
	require.Equal(t, replica.Status.ContainerStatuses[0].RestartCount, after.Status.ContainerStatuses[0].RestartCount)
	require.Less(t, most, int64(halfOfTheLogServicesLimit))
}
