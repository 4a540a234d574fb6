// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	waitForA = "wait-for.entrypointer.dev/a"
	ready    = "http://127.0.0.1:15021/healthz/ready"
)

func TestAContainerWaitsForUnwrappedContainers(t *testing.T) {
	for name, test := range map[string]struct {
		value  string
		change func(*corev1.Pod)
		want   []string
	}{
		"a URL":            {ready, nil, []string{"-wait-for=" + ready}},
		"several":          {"http://:1, tcp://:5432\nfile:///run/$x, tcp://[::1]:1", nil, []string{"-wait-for=http://:1/", "-wait-for=tcp://:5432", "-wait-for=file:///run/$$x", "-wait-for=tcp://[::1]:1"}},
		"a longest time":   {ready, func(p *corev1.Pod) { annotated(p, "entrypointer.dev/depends-on-timeout", "5m") }, []string{"-depends-on-timeout=5m", "-wait-for=" + ready}},
		"and a container":  {ready, func(p *corev1.Pod) { dependsOn(p, "a", "b:started") }, []string{"-depends-on=started:/entrypointer/order/b", "-wait-for=" + ready, "-final-exit-codes=0-255:/entrypointer/order/b"}},
		"one in mode exec": {ready, func(p *corev1.Pod) { annotated(p, "mode.entrypointer.dev/a", "exec") }, []string{"-mode=exec", "-wait-for=" + ready}},
		"a Revision": {ready, func(p *corev1.Pod) {
			restarting(p, "").Labels = map[string]string{"serving.knative.dev/revision": "r"}
		}, []string{"-wait-for=" + ready}},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(abc(), waitForA, test.value)
			if test.change != nil {
				test.change(p)
			}
			result := inject(t, newInjector(nil), p)
			require.Equal(t, test.want, flagsBefore(result.Pod, 0))
			require.Empty(t, result.Warnings)
			require.True(t, asksWhetherStarted(result.Pod.Spec.Containers[0]))
			require.False(t, asksWhetherStarted(result.Pod.Spec.Containers[2]))
			if name != "and a container" {
				require.Empty(t, orderVolumes(result.Pod))
				require.Empty(t, result.Order)
			}
			requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
			// Without the annotation, the probe goes.
			delete(result.Pod.Annotations, waitForA)
			again := inject(t, newInjector(nil), result.Pod).Pod
			require.Equal(t, name == "and a container", asksWhetherStarted(again.Spec.Containers[0]))
		})
	}
}

func TestAnImpossibleWaitIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"a startupProbe that the supervisor can't run": {func(p *corev1.Pod) {
			p.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
		}, `container "a" wait: its startupProbe has to begin`},
		"an unwrapped container": {func(p *corev1.Pod) { annotated(p, pod.ContainersAnnotation, "b") }, `container "a" can't be kept waiting, because it isn't wrapped`},
		"an absent container":    {func(p *corev1.Pod) { annotated(p, "wait-for.entrypointer.dev/x", ready) }, `the pod has no container "x"`},
		"for all":                {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/wait-for", ready) }, "write wait-for.entrypointer.dev/CONTAINER"},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(abc(), waitForA, ready)
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, test.says)
		})
	}
	for _, value := range []string{"", ",", "istio", "https://:1/", "tcp://db:1", "tcp://:0", "file://x", `["true"]`, strings.Repeat("tcp://:1,", 17)} {
		requireRefused(t, refusal(t, newInjector(nil), annotated(abc(), waitForA, value)), pod.InvalidAnnotation, "reading annotation "+waitForA, "is wrong; it can be http://:PORT/PATH")
	}
	p := annotated(abc(), waitForA, ready)
	p.Spec.Containers[0].Command = nil
	injector := newInjector(nil)
	injector.Policy.WaiveFailedLookups = true
	requireRefused(t, refusal(t, injector, p), pod.LookupFailed, `wrapping container "a"`)
}

func TestAHookThatMayDelayTheAwaitedContainerIsWarnedOf(t *testing.T) {
	p := annotated(abc(), waitForA, ready)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
	require.Empty(t, inject(t, newInjector(nil), p).Warnings)
	p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
	warnings := inject(t, newInjector(nil), p).Warnings
	require.Len(t, warnings, 1)
	require.Equal(t, pod.ReasonHookBeforeProxy, warnings[0].Reason)
	require.Contains(t, warnings[0].Message, `Kubernetes doesn't start "istio-proxy"`)
}
