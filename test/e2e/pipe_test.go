// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// asUser has a container run as a user, without any rights.
func asUser(user int64, c corev1.Container) corev1.Container {
	c.SecurityContext = &corev1.SecurityContext{
		RunAsUser: &user, RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return c
}

func TestAJobOfThreeContainersIsAPipeline(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createExample(t, namespace, "order/pipe.yaml")
	waitForJob(t, namespace, "pipe")
	p, err := cluster.PodOf(t.Context(), namespace, "job-name=pipe")
	require.NoError(t, err)
	require.Equal(t, "Injected by init-container; order: produce | transform | store", p.Annotations[pod.StatusAnnotation])
	require.Equal(t, "40951\n", printed(t, namespace, p.Name, "store"))
	require.Empty(t, printed(t, namespace, p.Name, "produce")+printed(t, namespace, p.Name, "transform"))
}

func TestAPipeBetweenUsersWithoutRights(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for name, test := range map[string]struct {
		writer, reader []string
		codes          [2]int32
		says           string // by the reader
	}{
		"whole": {
			[]string{"sh", "-c", "umask 077; echo from $(id -u); echo a word of its own >&2"},
			[]string{"sh", "-c", "cat; echo to $(id -u)"},
			[2]int32{0, 0},
			"from 1000\nto 2000\n",
		},
		"half": {
			[]string{"sh", "-c", "echo half; sleep 2; exit 3"},
			[]string{"cat"},
			[2]int32{3, 123},
			"half\nentrypointer: reading the output of container \"a\": it exited with 3: the output may be incomplete, so the command's success doesn't count: see the log of that container\n",
		},
		"enough": {[]string{"yes"}, []string{"head", "-n", "1"}, [2]int32{141, 0}, "y\n"},
		"never": {
			[]string{"/nothing"},
			[]string{"echo", "started"},
			[2]int32{127, 123},
			"entrypointer: waiting for a:writing (it exited with 127), which is not restarted: the command was not started: see the log of container \"a\"\n",
		},
	} {
		createPod(t, namespace, orderedPod(name, map[string]string{"stdin/b": "a"}, asUser(1000, busybox(t, "a", test.writer...)), asUser(2000, busybox(t, "b", test.reader...))))
		p := waitUntilDone(t, namespace, name)
		require.Equal(t, test.codes[0], ended(t, p, "a").ExitCode, name)
		require.Equal(t, test.codes[1], ended(t, p, "b").ExitCode, name)
		require.Equal(t, test.says, printed(t, namespace, name, "b"))
		if name == "whole" {
			require.Equal(t, "a word of its own\n", printed(t, namespace, name, "a"), "what goes to the pipe is in no log")
		}
	}
}

// The writer's first life fails in the middle, and so does its reader's, for which half an
// input isn't enough. Their second lives do it all anew.
func TestAPipeThatBreaksIsBegunAnew(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	writer := busybox(t, "a", "sh", "-c", "echo one; if mkdir /data/first; then sleep 2; exit 3; fi; echo two")
	p := orderedPod("anew", map[string]string{"stdin/b": "a"}, busybox(t, "b", "sh", "-c", "cat >/data/result; cat /data/result"), writer)
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for at := range p.Spec.Containers {
		p.Spec.Containers[at].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	createPod(t, namespace, p)
	p = waitForPhase(t, namespace, "anew", corev1.PodSucceeded)
	require.Equal(t, int32(1), containerStatus(t, p, "a").RestartCount, "%s: %s", containerStates(p), logs(t, namespace, "anew", "a")+logs(t, namespace, "anew", "b"))
	require.Equal(t, int32(3), containerStatus(t, p, "a").LastTerminationState.Terminated.ExitCode)
	require.Equal(t, int32(123), containerStatus(t, p, "b").LastTerminationState.Terminated.ExitCode)
	require.Equal(t, int32(1), containerStatus(t, p, "b").RestartCount)
	require.Equal(t, "one\ntwo\n", printed(t, namespace, "anew", "b"))
}

func TestAPipeThatCanNotBeIsRefusedInWords(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for name, test := range map[string]struct {
		annotations map[string]string
		says        string
	}{
		"circle":  {map[string]string{"stdin/a": "b", "stdin/b": "a"}, "a -> b -> a"},
		"nobody":  {map[string]string{"stdin/b": "c"}, `the pod has no container "c" in spec.containers; it has "a", "b"`},
		"itself":  {map[string]string{"stdin/b": "b"}, "a container can't read its own output"},
		"after":   {map[string]string{"stdin/b": "a", "depends-on/b": "a:completed"}, "which can't be completed before its output is read"},
		"mode":    {map[string]string{"stdin/b": "a", "mode/a": "exec"}, "the container has no supervisor that connects the pipe"},
		"garbage": {map[string]string{"stdin/b": "a, c"}, "it can be the name of another container of the pod"},
	} {
		_, err := wouldBecome(t, namespace, orderedPod(name, test.annotations, busybox(t, "a", "true"), busybox(t, "b", "true")))
		require.ErrorContains(t, err, test.says)
		require.ErrorContains(t, err, fmt.Sprintf("pod %q", name))
	}
}
