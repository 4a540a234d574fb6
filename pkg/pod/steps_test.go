// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// ofTaskRun returns the pod of a TaskRun with containers of these names.
func ofTaskRun(containers ...string) *corev1.Pod {
	p := asking()
	p.Labels, p.Annotations = map[string]string{"tekton.dev/taskRun": "t"}, map[string]string{}
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, running(name, "x"))
	}
	return p
}

func TestStepsTakeTurnsInTheOrderOfTheirContainers(t *testing.T) {
	p := ofTaskRun("step-a", "sidecar-db", "step-b", "step-c")
	turns := []pod.Turn{{Step: "step-a"}, {Step: "step-b", After: "step-a"}, {Step: "step-c", After: "step-b"}}
	require.Equal(t, turns, pod.Turns(p))
	require.Equal(t, turns, pod.Turns(inject(t, newInjector(nil), p).Pod), "wrapped")
	require.Empty(t, pod.Turns(asking(running("step-a", "x"), running("step-b", "x"))), "it is of no TaskRun")
}

func TestAnOptionIsSetForAStepByItsOwnName(t *testing.T) {
	none := []string{}
	for name, test := range map[string]struct {
		containers  []string
		annotations []string
		flags       [][]string // of the containers
	}{
		"its own name":                     {[]string{"step-a", "step-b"}, []string{"timeout.entrypointer.dev/a", "1s"}, [][]string{{"-timeout=1s"}, none}},
		"its container's name":             {[]string{"step-a", "step-b"}, []string{"timeout.entrypointer.dev/step-b", "1s"}, [][]string{none, {"-timeout=1s"}}},
		"both, with one value":             {[]string{"step-a"}, []string{"timeout.entrypointer.dev/a", "1s", "timeout.entrypointer.dev/step-a", "1s"}, [][]string{{"-timeout=1s"}}},
		"both, for different options":      {[]string{"step-a"}, []string{"timeout.entrypointer.dev/a", "1s", "grace-period.entrypointer.dev/step-a", "2s"}, [][]string{{"-timeout=1s", "-grace-period=2s"}}},
		"a step without a name":            {[]string{"step-unnamed-0"}, []string{"timeout.entrypointer.dev/unnamed-0", "1s"}, [][]string{{"-timeout=1s"}}},
		"a step that is named like one":    {[]string{"step-step-a"}, []string{"timeout.entrypointer.dev/step-a", "1s"}, [][]string{{"-timeout=1s"}}},
		"a container of this name":         {[]string{"step-step-a", "step-a"}, []string{"timeout.entrypointer.dev/step-a", "1s"}, [][]string{none, {"-timeout=1s"}}},
		"a container of another webhook":   {[]string{"step-a", "a"}, []string{"timeout.entrypointer.dev/a", "1s"}, [][]string{none}},
		"nearer than the pod's own option": {[]string{"step-a", "step-b"}, []string{"entrypointer.dev/timeout", "1h", "timeout.entrypointer.dev/a", "1s"}, [][]string{{"-timeout=1s"}, {"-timeout=1h"}}},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), annotated(ofTaskRun(test.containers...), test.annotations...))
			require.Empty(t, result.Warnings)
			for at, flags := range test.flags {
				require.Equal(t, flags, flagsOfContainer(result.Pod.Spec.Containers[at]), test.containers[at])
			}
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

// The order of annotations means nothing, so neither of two values wins.
func TestTwoValuesForOneStepAreRefused(t *testing.T) {
	p := annotated(ofTaskRun("step-a"), "timeout.entrypointer.dev/a", "1s", "timeout.entrypointer.dev/step-a", "2s")
	requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation,
		`reading annotations timeout.entrypointer.dev/a and timeout.entrypointer.dev/step-a: both are for container "step-a", with different values; remove one of them`)
}

func TestWhatIsSaidOfAStepNamesTheAnnotationAsItIsWritten(t *testing.T) {
	for _, test := range []struct{ key, value, says string }{
		{"timeout.entrypointer.dev/a", "soon", `reading annotation timeout.entrypointer.dev/a: "soon" is wrong`},
		{"depends-on.entrypointer.dev/a", "b:started", "reading annotation depends-on.entrypointer.dev/a: Tekton has an order of its own"},
		{"entrypointer.dev/mode", "exec", ""},
		{"end-sidecars.entrypointer.dev/a", "istio", "reading annotation end-sidecars.entrypointer.dev/a: the option is for whole pods"},
		{"shared-directory.entrypointer.dev/a", "/", "reading annotation shared-directory.entrypointer.dev/a: \"/\" is wrong"},
	} {
		p := annotated(ofTaskRun("step-a", "step-b"), test.key, test.value)
		if test.says == "" {
			requireRefused(t, refusal(t, newInjector(nil), annotated(p, "timeout.entrypointer.dev/a", "1s", "mode.entrypointer.dev/step-a", "exec")),
				pod.InvalidAnnotation, "reading annotation timeout.entrypointer.dev/a: it contradicts annotation mode.entrypointer.dev/step-a: exec")
			continue
		}
		requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, test.says)
	}
	restricted := newInjector(nil)
	restricted.Policy.PodOptions = []string{"mode"}
	requireRefused(t, refusal(t, restricted, annotated(ofTaskRun("step-a"), "timeout.entrypointer.dev/a", "1s")), pod.InvalidAnnotation,
		"reading annotation timeout.entrypointer.dev/a: the operator doesn't let pods set this option")
}

func TestStepsShareADirectoryByTheirOwnNames(t *testing.T) {
	const option = "shared-directory.entrypointer.dev/"
	result := inject(t, newInjector(nil), annotated(ofTaskRun("step-a", "step-b"), option+"a", "sockets", option+"step-b", "sockets"))
	require.Empty(t, result.Warnings)
	for _, c := range result.Pod.Spec.Containers {
		require.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "entrypointer-shared-sockets", MountPath: "/entrypointer/shared/sockets"}, c.Name)
	}
	alone := inject(t, newInjector(nil), annotated(ofTaskRun("step-a", "step-b"), option+"b", "sockets"))
	require.Equal(t, []pod.Warning{{
		Reason: pod.ReasonDirectoryNotShared, Message: `annotation ` + option + `b: no other container of the pod shares directory "sockets"`,
	}}, alone.Warnings)
}

func TestAStepThatATaskRunDoesNotHaveIsWarnedOf(t *testing.T) {
	for key, says := range map[string]string{
		"timeout.entrypointer.dev/tset":      `annotation timeout.entrypointer.dev/tset has no effect: the pod has neither a container nor a step "tset"; did you mean "test"?`,
		"timeout.entrypointer.dev/step-tset": `annotation timeout.entrypointer.dev/step-tset has no effect: the pod has no container "step-tset"; did you mean "step-test"?`,
		"timeout.entrypointer.dev/deploy":    `annotation timeout.entrypointer.dev/deploy has no effect: the pod has neither a container nor a step "deploy"`,
		"timeout.entrypointer.dev/db":        `annotation timeout.entrypointer.dev/db has no effect: the pod has neither a container nor a step "db"`,
	} {
		result := inject(t, newInjector(nil), annotated(ofTaskRun("step-test", "sidecar-db"), key, "1s"))
		require.Equal(t, []pod.Warning{{Reason: pod.ReasonAnnotationHasNoEffect, Message: says}}, result.Warnings)
	}
}

// Elsewhere, step-a is a name like any other.
func TestOnlyTektonsContainersHaveTwoNames(t *testing.T) {
	p := annotated(asking(running("step-a", "x")), "timeout.entrypointer.dev/a", "1s")
	requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, `the pod has no container "a" in spec.containers; it has "step-a"`)
}
