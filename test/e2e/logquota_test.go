// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/notices"
)

// setForLogs sets a key of config-logs that is this test's own, until the test is over.
func setForLogs(t *testing.T, key, value string) {
	t.Helper()
	patch := func(ctx context.Context, value string) {
		_, err := cluster.Kube.CoreV1().ConfigMaps(endpoint.Namespace).Patch(ctx, keeper.ConfigMap, types.MergePatchType,
			fmt.Appendf(nil, `{"data":{%q:%s}}`, key, value), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	t.Cleanup(func() { patch(context.Background(), "null") })
	patch(t.Context(), fmt.Sprintf("%q", value))
}

// placeholderLine is in the place of bytes that aren't stored.
var placeholderLine = regexp.MustCompile(`\n\[entrypointer: ([0-9]+) bytes were (dropped|deleted by retention)\]\n`)

func TestAPodWhoseNamespaceHasReachedItsQuotaRunsAndSaysWhatIsDropped(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	setForLogs(t, "quota."+namespace, "60k")
	time.Sleep(7 * time.Second) // the service reads it every 5 s
	const total = 8 * 20_000
	createPod(t, namespace, askingPod("prints", busybox(t, "main", "sh", "-c",
		`for i in 1 2 3 4 5 6 7 8; do head -c 20000 /dev/urandom; sleep 0.5; done; exit 3`)))
	done := waitUntilDone(t, namespace, "prints")
	require.Equal(t, int32(3), done.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	text := service.stored(token, namespace, "prints", "main")["main stdout"]
	counts := map[string]int{}
	for _, placeholder := range placeholderLine.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(placeholder[1])
		require.NoError(t, err)
		counts[placeholder[2]] += n
	}
	require.Positive(t, counts["dropped"], "some is dropped: %d bytes are there", len(text))
	stored := len(placeholderLine.ReplaceAllString(text, ""))
	require.Positive(t, stored)
	require.Equal(t, total, stored+counts["dropped"]+counts["deleted by retention"], "that is the whole: what is deleted has made room")
	events, err := cluster.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(done.UID) + ",reason=" + notices.ReasonRefused})
	require.NoError(t, err)
	messages := map[string]int{}
	for _, e := range events.Items {
		messages[e.Message]++
	}
	require.Equal(t, 1, messages[fmt.Sprintf("The log service refuses the output of stdout of container %q, which is dropped: %s.", "main", keeper.ErrQuota)], "%v", messages)
}

func TestALogThatIsNotKeptIsGone(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	createPod(t, namespace, askingPod("prints", busybox(t, "main", "echo", "hello")))
	waitUntilDone(t, namespace, "prints")
	require.Equal(t, "hello\n", service.stored(token, namespace, "prints", "main")["main stdout"])
	// A change of the limits begins a sweep. One that finds a log for the first time takes it as
	// written just now, so a later one deletes it.
	begun, retention := time.Now(), time.Duration(0)
	eventually(t, time.Minute, "its log is gone", func() error {
		// The service reads its limits every 5 s.
		if next := time.Second + time.Since(begun).Truncate(7*time.Second)/7; next != retention {
			retention = next
			setForLogs(t, "retention."+namespace, retention.String())
		}
		status, answer, err := service.try(http.MethodGet, fmt.Sprintf("/logs?namespace=%s&pod=prints", namespace), token, "")
		if err != nil || status != http.StatusOK || !strings.Contains(answer, `"logs":[]`) {
			return fmt.Errorf("%d: %s: %w", status, answer, err)
		}
		return nil
	})
}
