// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// patience is what a pod may take on a small machine that runs other tests.
const patience = 5 * time.Minute

// forever is a command that runs until it is told to stop, and stops at once then.
var forever = []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1 & wait; done"}

// busybox is a container that runs a command.
func busybox(t *testing.T, name string, command ...string) corev1.Container {
	t.Helper()
	return corev1.Container{Name: name, Image: image(t, "busybox:1.37"), Command: command}
}

// plainPod is a pod that runs its containers once, and doesn't mention us.
func plainPod(name string, containers ...corev1.Container) *corev1.Pod {
	grace, no := int64(5), false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers:                    containers,
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
		},
	}
}

// askingPod is such a pod that asks to be wrapped.
func askingPod(name string, containers ...corev1.Container) *corev1.Pod {
	p := plainPod(name, containers...)
	p.Annotations = map[string]string{pod.InjectAnnotation: "true"}
	return p
}

func createPod(t *testing.T, namespace string, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// wouldBecome is a pod as the injector would have it.
func wouldBecome(t *testing.T, namespace string, p *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// waitForPhase waits for one of the phases, which are the only ones where it stops.
func waitForPhase(t *testing.T, namespace, name string, phases ...corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	eventually(t, patience, fmt.Sprintf("pod %q in namespace %q to be %q", name, namespace, phases), func() (err error) {
		if got, err = cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if slices.Contains(phases, got.Status.Phase) {
			return nil
		}
		err = fmt.Errorf("it is %q: %s", got.Status.Phase, containerStates(got))
		if got.Status.Phase == corev1.PodFailed || got.Status.Phase == corev1.PodSucceeded {
			return framework.Permanent(err)
		}
		return err
	})
	return got
}

func waitUntilDone(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	return waitForPhase(t, namespace, name, corev1.PodSucceeded, corev1.PodFailed)
}

func waitUntilRunning(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	return waitForPhase(t, namespace, name, corev1.PodRunning)
}

func waitUntilPodIsGone(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("pod %q in namespace %q to be gone", name, namespace), func() error {
		_, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

func containerStates(p *corev1.Pod) string {
	var states []string
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil:
			states = append(states, fmt.Sprintf("%s waits: %s %s", s.Name, s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Terminated != nil:
			states = append(states, fmt.Sprintf("%s exited with code %d", s.Name, s.State.Terminated.ExitCode))
		default:
			states = append(states, s.Name+" runs")
		}
	}
	return strings.Join(states, ", ")
}

// printed is what a container's command has printed. On a busy node, the supervisor of a
// container that waits prints that it still does, as often as the wait is long.
func printed(t *testing.T, namespace, podName, container string) string {
	t.Helper()
	return reminder.ReplaceAllString(logs(t, namespace, podName, container), "")
}

var reminder = regexp.MustCompile(`(?m)^entrypointer: waiting for .* now\n`)

func logs(t *testing.T, namespace, podName, container string) string {
	t.Helper()
	text, err := cluster.Logs(t.Context(), namespace, podName, container)
	require.NoError(t, err)
	return text
}

func execIn(t *testing.T, namespace, podName, container string, command ...string) string {
	t.Helper()
	out, err := cluster.Exec(t.Context(), namespace, podName, container, command...)
	require.NoError(t, err)
	return out
}

// requireWrapped looks at the spec: the init container, and the command of each
// of these containers.
func requireWrapped(t *testing.T, p *corev1.Pod, containers ...string) {
	t.Helper()
	require.NotEmpty(t, p.Spec.InitContainers, "pod %s has an init container", p.Name)
	require.Equal(t, pod.InitContainerName, p.Spec.InitContainers[0].Name, "the first init container of pod %s", p.Name)
	var wrapped []string
	for _, c := range p.Spec.Containers {
		if slices.Equal(c.Command, []string{pod.EntrypointPath}) {
			wrapped = append(wrapped, c.Name)
		}
	}
	require.Equal(t, containers, wrapped, "the wrapped containers of pod %s", p.Name)
}
