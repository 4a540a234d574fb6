// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eachWay runs a test with the means to make a pod, and once more with pods that
// ask to be wrapped.
func eachWay(t *testing.T, test func(t *testing.T, namespace string, pod func(name string, containers ...corev1.Container) *corev1.Pod)) {
	t.Helper()
	t.Run("unwrapped", func(t *testing.T) {
		t.Parallel()
		test(t, plainNamespace(t), plainPod)
	})
	t.Run("wrapped", func(t *testing.T) {
		t.Parallel()
		test(t, optedInNamespace(t), askingPod)
	})
}

func TestAPodThatIsDeletedHasItsHookItsSignalAndItsGracePeriod(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, namespace string, pod func(string, ...corev1.Container) *corev1.Pod) {
		c := busybox(t, "main", "sh", "-c", "trap 'echo told' TERM; echo started; while :; do sleep 0.1 & wait; done")
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo hook >/proc/1/fd/1; sleep 1"}},
		}}
		createPod(t, namespace, pod("stubborn", c))
		waitUntilRunning(t, namespace, "stubborn")
		output := follow(t, namespace, "stubborn", "main")
		require.Equal(t, "started", output.next())
		grace := int64(10)
		require.NoError(t, cluster.Kube.CoreV1().Pods(namespace).Delete(t.Context(), "stubborn", metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		require.Equal(t, []string{"hook", "told"}, output.rest(), "and then SIGKILL")
	})
}

func TestATerminalIsAttachedTo(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, namespace string, pod func(string, ...corev1.Container) *corev1.Pod) {
		c := busybox(t, "main", "sh")
		c.Stdin, c.TTY = true, true
		createPod(t, namespace, pod("terminal", c))
		waitUntilRunning(t, namespace, "terminal")
		input, typed := io.Pipe()
		shown, output := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		attached := make(chan error, 1)
		go func() {
			attached <- cluster.Attach(ctx, namespace, "terminal", "main", input, output)
			_ = output.Close()
		}()
		screen := bufio.NewScanner(shown)
		enter := func(keys, expected string) {
			t.Helper()
			_, err := io.WriteString(typed, keys)
			require.NoError(t, err)
			for screen.Scan() {
				// The terminal echoes what was typed, on the same line maybe.
				if strings.HasSuffix(strings.TrimRight(screen.Text(), "\r"), expected) {
					return
				}
			}
			require.Fail(t, "the terminal closed", "before it showed %q", expected)
		}
		enter("echo $((6*7))\r", "42")
		enter("sh -c 'trap \"echo interrupted; exit\" INT; echo w''aits; while :; do sleep 0.1; done'\r", "waits")
		enter("\x03", "interrupted")
		_, err := io.WriteString(typed, "exit 3\r")
		require.NoError(t, err)
		for screen.Scan() {
			continue // what is left
		}
		require.NoError(t, <-attached)
		require.Equal(t, int32(3), ended(t, waitUntilDone(t, namespace, "terminal"), "main").ExitCode)
	})
}

func TestAThrottledContainerRuns(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, namespace string, pod func(string, ...corev1.Container) *corev1.Pod) {
		c := busybox(t, "main", "sh", "-c", "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; echo $i; exit 4")
		c.Resources.Limits = resources("cpu", "20m")
		createPod(t, namespace, pod("throttled", c))
		require.Equal(t, int32(4), ended(t, waitUntilDone(t, namespace, "throttled"), "main").ExitCode)
		require.Equal(t, "1000\n", logs(t, namespace, "throttled", "main"))
	})
}
