// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func annotated(p *corev1.Pod, pairs ...string) *corev1.Pod {
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Annotations[pairs[i]] = pairs[i+1]
	}
	return p
}

func TestTheModeIsThePodsUnlessTheContainerHasItsOwn(t *testing.T) {
	two := func() *corev1.Pod { return asking(running("a", "x"), running("b", "y")) }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		a, b []string
	}{
		"none":                       {two(), []string{"--", "x"}, []string{"--", "y"}},
		"the pod's":                  {annotated(two(), "entrypointer.dev/mode", "exec"), []string{"-mode=exec", "--", "x"}, []string{"-mode=exec", "--", "y"}},
		"one container's":            {annotated(two(), "mode.entrypointer.dev/b", "exec"), []string{"--", "x"}, []string{"-mode=exec", "--", "y"}},
		"a container's over a pod's": {annotated(two(), "entrypointer.dev/mode", "exec", "mode.entrypointer.dev/a", "supervise"), []string{"--", "x"}, []string{"-mode=exec", "--", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), test.pod)
			require.Equal(t, test.a, result.Pod.Spec.Containers[0].Args)
			require.Equal(t, test.b, result.Pod.Spec.Containers[1].Args)
			require.Empty(t, result.Warnings)

			again := inject(t, newInjector(nil), result.Pod)
			require.Equal(t, pod.AlreadyInjected, again.Outcome)
			require.Equal(t, result.Pod, again.Pod)
		})
	}
}

func TestFlagsFollowTheAnnotationsOnReinvocation(t *testing.T) {
	once := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	result := inject(t, newInjector(nil), annotated(once, "entrypointer.dev/mode", "exec"))
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, []string{"-mode=exec", "--", "x"}, result.Pod.Spec.Containers[0].Args)

	delete(result.Pod.Annotations, "entrypointer.dev/mode")
	require.Equal(t, []string{"--", "x"}, inject(t, newInjector(nil), result.Pod).Pod.Spec.Containers[0].Args, "nor does a forged flag stay")
}

func TestAModeThatDoesntExistIsRefused(t *testing.T) {
	for key, value := range map[string]string{"entrypointer.dev/mode": "", "mode.entrypointer.dev/a": "Exec"} {
		_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), key, value))
		requireRefused(t, err, pod.InvalidAnnotation, key, `it can be "supervise" or "exec"`)
	}
	_, err := newInjector(nil).Inject(t.Context(), "tenant", annotated(asking(running("a", "x")), "mode.entrypointer.dev/b", "exec"))
	requireRefused(t, err, pod.InvalidAnnotation, `no container "b"`)
}

func TestAnAnnotationWithoutEffectIsWarnedOf(t *testing.T) {
	taskRun := func() *corev1.Pod {
		p := asking(running("step-a", "x"))
		p.Annotations = map[string]string{}
		p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
		return p
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		says string
	}{
		"a spelling mistake":              {annotated(asking(running("a", "x")), "entrypointer.dev/mod", "exec"), "entrypointer.dev/mod is unknown"},
		"an option that there isn't":      {annotated(asking(running("a", "x")), "colour.entrypointer.dev/a", "red"), "colour.entrypointer.dev/a is unknown"},
		"containers of a TaskRun":         {annotated(taskRun(), pod.ContainersAnnotation, "step-a"), "no effect on a pod of Tekton's"},
		"opting out, which isn't allowed": {annotated(taskRun(), pod.InjectAnnotation, "false"), "the operator forbids opting out"},
	} {
		t.Run(name, func(t *testing.T) {
			injector := newInjector(nil)
			injector.Policy.ForbidOptOut = true
			result := inject(t, injector, test.pod)
			require.Equal(t, pod.Injected, result.Outcome)
			require.Len(t, result.Warnings, 1)
			require.Contains(t, result.Warnings[0], test.says)
		})
	}
	require.Empty(t, inject(t, newInjector(nil), annotated(asking(running("a", "x")), "notentrypointer.dev/mode", "x")).Warnings)
}
