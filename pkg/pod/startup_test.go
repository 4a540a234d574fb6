// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestTheStartupProbeOfAContainerThatWaitsBeginsWithItsCommand(t *testing.T) {
	exec := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check", "$(B)"}}}
	get := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/x", HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "b"}}}}
	for name, test := range map[string]struct {
		probe corev1.Probe
		grace *int64 // the pod's
		want  []string
	}{
		"a command":                     {corev1.Probe{ProbeHandler: exec}, nil, []string{"-startup-exec=check", "-startup-exec=$(B)"}},
		"a page":                        {corev1.Probe{ProbeHandler: get}, nil, []string{"-startup-http=http://:80/x", "-startup-http-header=A: b"}},
		"with its time":                 {corev1.Probe{ProbeHandler: exec, InitialDelaySeconds: 3, PeriodSeconds: 7, TimeoutSeconds: 2, FailureThreshold: 30}, nil, []string{"-startup-exec=check", "-startup-exec=$(B)", "-startup-timeout=2s", "-startup-delay=3s", "-startup-period=7s", "-startup-failures=30"}},
		"the pod's grace period":        {corev1.Probe{ProbeHandler: exec}, new(int64(60)), []string{"-startup-exec=check", "-startup-exec=$(B)", "-startup-grace=1m0s"}},
		"a grace period before the pod": {corev1.Probe{ProbeHandler: exec, TerminationGracePeriodSeconds: new(int64(5))}, new(int64(60)), []string{"-startup-exec=check", "-startup-exec=$(B)", "-startup-grace=5s"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := dependsOn(abc(), "a", "b:started")
			p.Spec.TerminationGracePeriodSeconds = test.grace
			p.Spec.Containers[0].StartupProbe = &test.probe
			wrapped := inject(t, newInjector(nil), p).Pod
			flags := slices.DeleteFunc(slices.Clone(flagsBefore(wrapped, 0)), func(flag string) bool { return !strings.HasPrefix(flag, "-startup-") })
			require.Equal(t, test.want, flags)
			require.Equal(t, []string{pod.EntrypointPath, "started"}, wrapped.Spec.Containers[0].StartupProbe.Exec.Command)

			again := inject(t, newInjector(nil), wrapped)
			require.Equal(t, pod.AlreadyInjected, again.Outcome, "the second look knows it by the flags")
			require.Equal(t, wrapped, again.Pod)
		})
	}
}

func TestAStartupProbeNeedsTheEntrypointToStay(t *testing.T) {
	p := annotated(dependsOn(abc(), "a", "b:started"), "mode.entrypointer.dev/a", "exec")
	p.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
	requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, `container "a" wait: its startupProbe has to begin`, "by annotation mode.entrypointer.dev/a: exec, the command takes its place")
}

func TestOnlyServersAreAskedEverySecondWhetherTheyAreStarted(t *testing.T) {
	for policy, period := range map[corev1.RestartPolicy]int32{"": 1, corev1.RestartPolicyAlways: 1, corev1.RestartPolicyOnFailure: 10, corev1.RestartPolicyNever: 10} {
		p := restarting(dependsOn(abc(), "a", "b:started"), policy)
		require.Equal(t, period, inject(t, newInjector(nil), p).Pod.Spec.Containers[0].StartupProbe.PeriodSeconds, policy)
	}
}
