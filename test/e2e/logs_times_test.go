// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

func TestATaskRunIsReadAsItPrintedWithWhatHappenedToIt(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	kubectl := newPlugin(t)
	namespace, token := logsNamespace(t, "stream")
	viewer := withToken(t, token)
	step := func(name, script string) pipelinev1.Step {
		return pipelinev1.Step{Name: name, Image: image(t, "busybox:1.37"), Command: []string{"sh", "-c", script}}
	}
	ran, p := runTask(t, namespace, &pipelinev1.TaskRun{ObjectMeta: metav1.ObjectMeta{Name: "ordered"}, Spec: pipelinev1.TaskRunSpec{TaskSpec: &pipelinev1.TaskSpec{Steps: []pipelinev1.Step{
		step("first", "echo one; sleep 3; echo two >&2; sleep 3; echo three"),
		step("quiet", "sleep 3"), // only its events are sent
		step("last", "echo four >&2; sleep 3; echo five"),
	}}}})
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	requireWrapped(t, p, stepContainers(p)...)

	text := kubectl.reads(t, viewer, "five", "-n", namespace, "taskrun/ordered", "--timestamps", "--prefix=false")
	var lines []string
	var came []time.Time
	for line := range strings.Lines(text) {
		at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		parsed, err := time.Parse("2006-01-02T15:04:05.000Z", at)
		require.NoError(t, err, line)
		lines, came = append(lines, rest), append(came, parsed)
	}
	require.Equal(t, []string{"one", "two", "three", "four", "five"}, lines)
	for i, apart := range []time.Duration{time.Second, time.Second, 0, time.Second} {
		require.GreaterOrEqual(t, came[i+1].Sub(came[i]), apart, text)
	}
	since := came[2].Format("2006-01-02T15:04:05.000Z")
	require.Equal(t, "three\nfour\nfive\n", kubectl.reads(t, viewer, "five", "-n", namespace, "taskrun/ordered", "--since-time", since, "--prefix=false"))
	require.Equal(t, "[pod/ordered-pod/step-first] two\n", kubectl.reads(t, viewer, "two", "-n", namespace, "taskrun/ordered", "--stream=stderr", "-c", "step-first", "--prefix", "--since=1h"))

	eventKinds := map[string][]string{}
	for _, name := range []string{"first", "last"} {
		text := kubectl.reads(t, viewer, `"finished"`, "-n", namespace, "taskrun/ordered", "--events", "-o", "json", "-c", "step-"+name)
		for line := range strings.Lines(text) {
			var event struct{ Event string }
			require.NoError(t, json.Unmarshal([]byte(line), &event), line)
			eventKinds[name] = append(eventKinds[name], event.Event)
		}
	}
	for name, kinds := range eventKinds {
		require.Equal(t, []string{"waiting", "waited", "started", "exited", "finished"}, kinds, name)
	}
	require.Contains(t, kubectl.reads(t, viewer, "finished", "-n", namespace, "taskrun/ordered", "--events", "-c", "step-first"), " exited exitCode=0 milliseconds=")
}

func TestAPodThatKnowsNoNamesOfTheClusterSendsItsLogs(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace, token := logsNamespace(t, "stream")
	for name, change := range map[string]func(*corev1.PodSpec){
		"own-dns": func(spec *corev1.PodSpec) {
			spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
		},
		"on-the-nodes-network": func(spec *corev1.PodSpec) { spec.HostNetwork = true },
	} {
		p := askingPod(name, busybox(t, "main", "echo", "hello"))
		change(&p.Spec)
		createPod(t, namespace, p)
		waitUntilDone(t, namespace, name)
		require.Equal(t, pointsTo(namespace, name, "main"), logs(t, namespace, name, "main"))
		require.Equal(t, "hello\n", service.stored(token, namespace, name, "main")["main stdout"])
	}
}

func TestWhatTheKernelKillsForWantOfMemoryIsAnEvent(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	namespace, token := logsNamespace(t, "stream")
	p := askingPod("greedy", busybox(t, "main", "sh", "-c", "echo before; tail /dev/zero; echo after; exit 3"))
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: resources("memory", "48Mi")}
	createPod(t, namespace, p)
	ended := waitUntilDone(t, namespace, "greedy").Status.ContainerStatuses[0].State.Terminated
	viewer := withToken(t, token)
	if ended.ExitCode == 128+9 {
		// With cgroup v2, the kubelet has the kernel kill the whole container
		// (memory.oom.group): nobody is left to tell, and the log reads as cut off.
		require.Equal(t, "OOMKilled", ended.Reason)
		require.NotContains(t, kubectl.reads(t, viewer, "before", "-n", namespace, "pod/greedy"), "after")
		return
	}
	require.Equal(t, int32(3), ended.ExitCode)
	require.Equal(t, "before\nafter\n", kubectl.reads(t, viewer, "after", "-n", namespace, "pod/greedy", "--stream=stdout"))
	require.Contains(t, kubectl.reads(t, viewer, "finished", "-n", namespace, "pod/greedy", "--events"), " oomKilled processes=1")
}
