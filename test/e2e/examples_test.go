// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// seen is what an example shows: what it said, and who was PID 1 when it did.
type seen struct{ said, first string }

// see splits an output into what was said and who was PID 1.
func see(output string) seen {
	said, processes := framework.SplitProcesses(output)
	return seen{said: said, first: framework.PID1Command(processes)}
}

// examples has for each file in examples/ how to see what it shows.
var examples = map[string]func(t *testing.T, namespace string) map[string]seen{
	"taskrun.yaml":     seeTaskRun,
	"pipelinerun.yaml": seePipelineRun,
	"service.yaml":     seeService,
	"deployment.yaml":  seeDeployment,
}

func TestEveryExampleSaysTheSameUnderTheEntrypoint(t *testing.T) {
	t.Parallel()
	files, err := framework.Examples()
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(examples)), files)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			plainNS, optedInNS := plainNamespace(t), optedInNamespace(t)
			createExample(t, plainNS, file)
			createExample(t, optedInNS, file)
			plain, wrapped := examples[file](t, plainNS), examples[file](t, optedInNS)
			require.NotEmpty(t, plain)
			for what, got := range wrapped {
				require.Equal(t, plain[what].said, got.said, what)
				require.True(t, strings.HasPrefix(got.first, pod.EntrypointPath+" "), "PID 1 of %s is %q", what, got.first)
				require.NotContains(t, plain[what].first, pod.EntrypointPath, "PID 1 of "+what)
			}
			require.Len(t, wrapped, len(plain))
		})
	}
}

func TestEveryExampleRunsAsItIs(t *testing.T) {
	requireExamplesRun(t, 1)
}

// requireExamplesRun does what "make examples" does, as often as that. The last command
// asks a Knative Service at the URL that Knative prints.
func requireExamplesRun(t *testing.T, times int) {
	t.Helper()
	configureForNow(t, "tools", "") // of which the script offers the one that an example asks for
	namespace := plainNamespace(t)
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(top, "examples", "*.yaml"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(top, "examples", "*", "*.yaml")) // deeper are overlays of operators
	require.NoError(t, err)
	for range times {
		out, err := framework.Run(t.Context(), "hack/examples.sh", "ko", namespace)
		require.NoError(t, err)
		for _, file := range append(files, more...) {
			name, err := filepath.Rel(top, file)
			require.NoError(t, err)
			require.Contains(t, string(out), name)
		}
		require.Contains(t, string(out), "hello, Knative\nPID   COMMAND\n    1 "+pod.EntrypointPath)
	}
}

func createExample(t *testing.T, namespace, file string) {
	t.Helper()
	objects, err := framework.Example(t.Context(), file)
	require.NoError(t, err)
	require.NoError(t, cluster.Create(t.Context(), namespace, objects...))
}

func seeTaskRun(t *testing.T, namespace string) map[string]seen {
	t.Helper()
	run, err := cluster.WaitForTaskRun(t.Context(), namespace, "steps")
	require.NoError(t, err)
	ran := describe(t, run)
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.Equal(t, "hello, Tekton\n", ran.Results[0].Value.StringVal)
	require.Equal(t, int32(3), ran.Steps[2].ExitCode)
	shown := map[string]seen{}
	for _, step := range ran.Steps {
		shown[step.Container] = see(step.Log)
	}
	return shown
}

func seePipelineRun(t *testing.T, namespace string) map[string]seen {
	t.Helper()
	run, err := cluster.WaitForPipelineRun(t.Context(), namespace, "relay")
	require.NoError(t, err)
	require.Equal(t, "42", run.Status.Results[0].Value.StringVal)
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 2)
	shown := map[string]seen{}
	for i := range pods.Items {
		for _, step := range stepContainers(&pods.Items[i]) {
			shown[step] = see(logs(t, namespace, pods.Items[i].Name, step))
		}
	}
	return shown
}

func seeService(t *testing.T, namespace string) map[string]seen {
	t.Helper()
	service, err := cluster.WaitForService(t.Context(), namespace, "hello")
	require.NoError(t, err)
	return map[string]seen{"answer": see(waitForAnswer(t, service))}
}

func seeDeployment(t *testing.T, namespace string) map[string]seen {
	t.Helper()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "clock"))
	p, err := cluster.PodOf(t.Context(), namespace, "app=clock")
	require.NoError(t, err)
	return map[string]seen{
		"clock": see(logs(t, namespace, p.Name, "clock") + execIn(t, namespace, p.Name, "clock", "ps", "-o", "pid,args")),
		"hello": see(logs(t, namespace, p.Name, "hello")),
	}
}
