// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The first step of a TaskRun waits until Tekton's controller has seen that all containers
// of the pod have started, and has told so by an annotation, which the kubelet writes to a
// file. The supervisors know it as soon as it is true: each leaves a file in the directory
// of its step, which the other steps can read.

// The files in the directory of a step (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/pod.go, runMount).
const (
	startedFile = "entrypointer-started" // since the supervisor's start
	turnFile    = "entrypointer-turn"    // since the first step's turn
)

const tektonReady = tektonDownward + "/ready"

// startFlags returns the flags by which steps tell the first one that they have started,
// and those by which it learns that. They are empty unless all containers of the pod are
// wrapped steps: Tekton waits for others to be ready, which only its controller knows.
// Native sidecars don't count, because the kubelet starts them before.
func (w *wrapping) startFlags(c *container, of *step) []string {
	if w.stepDirs == nil {
		w.stepDirs = new(stepDirectories(w.pod.Pod))
	}
	dirs := *w.stepDirs
	if dirs == nil {
		return nil
	}
	flags := []string{startedFileFlag + path.Join(dirs[c.index], startedFile)}
	if c.index > 0 || !of.waitsForTekton(c.words.argv) || !reads(c.Container, w.pod.Spec.Containers, dirs) {
		return flags
	}
	for _, dir := range dirs {
		flags = append(flags, waitInsteadFlag+path.Join(dir, startedFile))
	}
	return append(flags, turnFileFlag+path.Join(dirs[c.index], turnFile))
}

// maxSteps bounds the steps that are looked at: each may mount a volume of each other one.
const maxSteps = 256

// stepDirectories returns the directories of a pod's steps, nil if not all containers are
// steps, if a step's directory isn't known or can hold files of a former life, or if a step
// gets credentials.
func stepDirectories(pod *corev1.Pod) (dirs []string) {
	// With another policy, a container has several lives.
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || len(pod.Spec.Containers) > maxSteps {
		return nil
	}
	for at := range pod.Spec.Containers {
		c := &pod.Spec.Containers[at]
		argv := slices.Concat(c.Command, c.Args)
		if former, wrapped := wrappedWords(c); wrapped {
			argv = former.argv
		}
		step, certain := parseStep(argv)
		dir := path.Dir(step.postFile)
		// Tekton's entrypoint copies credentials to HOME at its start, which the first step
		// must not precede if steps share that directory.
		if !isStep(*c) || !certain || step.credentials || c.RestartPolicy != nil || !isOfPod(pod, volumeAt(c, dir, false)) {
			return nil
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// isOfPod reports whether a volume is empty when the pod starts.
func isOfPod(pod *corev1.Pod, name string) bool {
	at := indexOfVolume(pod, name)
	return at >= 0 && pod.Spec.Volumes[at].EmptyDir != nil
}

// waitsForTekton reports whether Tekton's entrypoint waits for Tekton's controller, and
// does so by the words that the supervisor replaces.
func (s *step) waitsForTekton(argv []string) bool {
	return s.content && slices.Equal(s.waitFiles, []string{tektonReady}) && len(argv) > 2 && argv[1] == "-wait_file" && argv[2] == tektonReady
}

// reads reports whether a container sees the directories of all of these steps.
func reads(c *corev1.Container, steps []corev1.Container, dirs []string) bool {
	for at, dir := range dirs {
		if volumeAt(c, dir, true) != volumeAt(&steps[at], dir, false) {
			return false
		}
	}
	return true
}

// volumeAt returns the volume that a container mounts whole at a path, "" if it mounts none
// there, or none that it may write to, unless reading is enough.
func volumeAt(c *corev1.Container, path string, readOnly bool) string {
	at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
	if at < 0 || c.VolumeMounts[at].SubPath != "" || c.VolumeMounts[at].SubPathExpr != "" || c.VolumeMounts[at].ReadOnly && !readOnly {
		return ""
	}
	return c.VolumeMounts[at].Name
}
