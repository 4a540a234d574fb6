// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// containerResult is the outcome of a container, as observers see it who know nothing
// of entrypointer.
type containerResult struct {
	ExitCode int32
	Signal   int32
	Reason   string
	Message  string
	Log      string
}

// pair is two namespaces to compare what becomes of a pod in: one that didn't
// opt in, and one that did.
type pair struct{ plain, optedIn string }

func newPair(t *testing.T, labels ...string) pair {
	t.Helper()
	return pair{plain: plainNamespace(t, labels...), optedIn: optedInNamespace(t, labels...)}
}

// create creates the same pod in both.
func (both pair) create(t *testing.T, p *corev1.Pod) (plain, wrapped *corev1.Pod) {
	t.Helper()
	plain, wrapped = createPod(t, both.plain, p), createPod(t, both.optedIn, p)
	require.NoError(t, framework.CheckNotWrapped(plain))
	require.Error(t, framework.CheckNotWrapped(wrapped))
	return plain, wrapped
}

// run runs the same pod in both, and returns what became of its container "main".
func (both pair) run(t *testing.T, p *corev1.Pod) (plain, wrapped containerResult) {
	t.Helper()
	_, created := both.create(t, p)
	requireWrapped(t, created, "main")
	return ranMain(t, both.plain, p.Name), ranMain(t, both.optedIn, p.Name)
}

// inBoth runs a pod in a pair of its own.
func inBoth(t *testing.T, p *corev1.Pod) (plain, wrapped containerResult) {
	t.Helper()
	return newPair(t).run(t, p)
}

func ranMain(t *testing.T, namespace, name string) containerResult {
	t.Helper()
	done := waitUntilDone(t, namespace, name)
	require.Len(t, done.Status.ContainerStatuses, 1)
	terminated := done.Status.ContainerStatuses[0].State.Terminated
	require.NotNil(t, terminated)
	return containerResult{terminated.ExitCode, terminated.Signal, terminated.Reason, terminated.Message, sorted(logs(t, namespace, name, "main"))}
}

// sorted sorts lines: what goes to stdout and what goes to stderr is collected
// through two pipes, and which is read first is chance.
func sorted(log string) string {
	return strings.Join(slices.Sorted(strings.Lines(log)), "")
}

func TestVariablesAndDollarsInArgsMeanWhatTheyMeanUnwrapped(t *testing.T) {
	t.Parallel()
	c := busybox(t, "main", "printf", "%s|")
	c.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}, {Name: "PRICE", Value: "5$"}}
	c.Args = []string{"$(GREETING)", "$$(GREETING)", "$$$(GREETING)", "$GREETING", "$(MISSING)", "$$", "$$$$", "$", "$(PRICE)", "", " ", "--", "-argv"}
	plain, wrapped := inBoth(t, askingPod("expansion", c))
	require.Equal(t, "hello|$(GREETING)|$hello|$GREETING|$(MISSING)|$|$$|$|5$|| |--|-argv|", plain.Log)
	require.Equal(t, plain, wrapped)
}

func TestAContainerThatFailsFailsAsUnwrapped(t *testing.T) {
	t.Parallel()
	c := busybox(t, "main", "sh", "-c", "echo to stdout; echo to stderr >&2; echo why | tee /dev/termination-log; exit 42")
	plain, wrapped := inBoth(t, askingPod("fails", c))
	require.Equal(t, int32(42), plain.ExitCode)
	require.Equal(t, "why\n", plain.Message)
	require.Equal(t, plain, wrapped)
}

// As PID 1, the shell would have survived this: the kernel spares PID 1 what it
// doesn't handle. (The kubelet makes $$ of $$$$.)
func TestASignalThatKillsAProgramShowsInTheExitCode(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("killed", busybox(t, "main", "sh", "-c", "kill -USR1 $$$$")))
	require.Equal(t, int32(128+10), ranMain(t, namespace, "killed").ExitCode)
}

func TestWhereAndAsWhomAContainerRunsIsAsUnwrapped(t *testing.T) {
	t.Parallel()
	c := busybox(t, "main", "sh", "-c", "pwd; id -u; id -g; id -G; umask; ulimit -n; env; ls /proc/self/fd; cat; grep -e Cap -e NoNewPrivs -e Seccomp: -e SigIgn -e SigBlk /proc/self/status")
	c.WorkingDir = "/tmp"
	c.Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}}
	plain, wrapped := inBoth(t, askingPod("where", c))
	require.Contains(t, plain.Log, "/tmp\n")
	require.Contains(t, plain.Log, "COLOUR=blue\n")
	require.Equal(t, plain, wrapped)
}

func TestAStoppedPodStopsInOrder(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("stops", busybox(t, "main", "sh", "-c",
		"trap 'echo stopped in order; exit 0' TERM; echo ready; while true; do sleep 1 & wait; done")))
	waitUntilRunning(t, namespace, "stops")
	lines := follow(t, namespace, "stops", "main")
	require.Equal(t, "ready", lines.next())
	deletePod(t, namespace, "stops")
	require.Equal(t, "stopped in order", lines.next())
	require.Empty(t, lines.next(), "what it wrote after that")
}
