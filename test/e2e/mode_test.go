// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAContainerThatInsistsOnBeingPID1IsIt(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("pid1", busybox(t, "init", forever...), busybox(t, "main", forever...))
	p.Annotations["mode.entrypointer.dev/init"] = "exec"
	createPod(t, namespace, p)
	requireWrapped(t, waitUntilRunning(t, namespace, "pid1"), "init", "main")
	program := func(container string) string {
		return strings.TrimSpace(execIn(t, namespace, "pid1", container, "readlink", "/proc/1/exe"))
	}
	require.Equal(t, "/bin/busybox", program("init"))
	require.Equal(t, "/entrypointer/bin/entrypoint", program("main"))
}

func TestAModeThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("modal", busybox(t, "main", "true"))
	p.Annotations["entrypointer.dev/mode"] = "PID1"
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	require.ErrorContains(t, err, `entrypointer.dev/mode: "PID1" is wrong; it can be "supervise" or "exec"`)
}
