// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// stepsPod is the pod of a TaskRun of so many steps, as Tekton makes it.
func stepsPod(t *testing.T, steps int) *corev1.Pod {
	t.Helper()
	var spec pipelinev1.TaskSpec
	for n := range steps {
		spec.Steps = append(spec.Steps, pipelinev1.Step{Name: "s" + strconv.Itoa(n), Image: "busybox", Command: []string{"true"}})
	}
	return tektonPod(t, spec)
}

// ofStarts are the flags of each container by which steps know of their starts.
func ofStarts(p *corev1.Pod) [][]string {
	var all [][]string
	for _, c := range p.Spec.Containers {
		var flags []string
		for _, arg := range c.Args[:max(slices.Index(c.Args, "--"), 0)] {
			if strings.HasPrefix(arg, "-started-file=") || strings.HasPrefix(arg, "-wait-instead=") || strings.HasPrefix(arg, "-turn-file=") {
				flags = append(flags, arg)
			}
		}
		all = append(all, flags)
	}
	return all
}

func TestAFirstStepLearnsFromTheOthersThatTheyHaveStarted(t *testing.T) {
	result := inject(t, newInjector(nil), stepsPod(t, 3))
	const started = "/entrypointer-started"
	require.Equal(t, [][]string{
		{
			"-started-file=/tekton/run/0" + started,
			"-wait-instead=/tekton/run/0" + started, "-wait-instead=/tekton/run/1" + started, "-wait-instead=/tekton/run/2" + started,
			"-turn-file=/tekton/run/0/entrypointer-turn",
		},
		{"-started-file=/tekton/run/1" + started},
		{"-started-file=/tekton/run/2" + started},
	}, ofStarts(result.Pod))
	first := result.Pod.Spec.Containers[0].Args
	require.Contains(t, first, "-wait-content=/tekton/downward/ready", "Tekton's word counts as well")
	require.Equal(t, []string{"/tekton/bin/entrypoint", "-wait_file", "/tekton/downward/ready", "-wait_file_content"}, first[slices.Index(first, "--")+1:][:4], "to the byte")
	require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
}

func TestTheOnlyStepWaitsForItself(t *testing.T) {
	const started = "/tekton/run/0/entrypointer-started"
	require.Equal(t, [][]string{{"-started-file=" + started, "-wait-instead=" + started, "-turn-file=/tekton/run/0/entrypointer-turn"}},
		ofStarts(inject(t, newInjector(nil), stepsPod(t, 1)).Pod))
}

func TestWhereNotAllContainersAreWrappedStepsTektonsControllerDecides(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		none   bool // no step has these flags
	}{
		"a sidecar":         {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, running("sidecar-db", "db")) }, true},
		"another webhook's": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "proxy")) }, true},
		"a step of another": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, running("step-other", "x")) }, true},
		"a flag we don't know": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Args = slices.Insert(p.Spec.Containers[1].Args, 0, "-new")
		}, true},
		"credentials": {func(p *corev1.Pod) {
			p.Spec.Containers[1].Args = slices.Insert(p.Spec.Containers[1].Args, 0, "-basic-git=s=https://x")
		}, true},
		"restarted containers":          {func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, true},
		"a container that is restarted": {func(p *corev1.Pod) { p.Spec.Containers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }, true},
		"a volume that outlives the pod": {func(p *corev1.Pod) {
			at := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mountAt(p, 1, "/tekton/run/1").Name })
			p.Spec.Volumes[at].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
		}, true},
		"a step's directory that it can't write to": {func(p *corev1.Pod) { mountAt(p, 1, "/tekton/run/1").ReadOnly = true }, true},
		"a part of a volume":                        {func(p *corev1.Pod) { mountAt(p, 1, "/tekton/run/1").SubPath = "x" }, true},
		"too many":                                  {func(p *corev1.Pod) { p.Spec.Containers = slices.Repeat(p.Spec.Containers[:1], 257) }, true},
		"a directory that the first doesn't see":    {func(p *corev1.Pod) { mountAt(p, 0, "/tekton/run/1").MountPath = "/elsewhere" }, false},
		"another one in its place":                  {func(p *corev1.Pod) { mountAt(p, 0, "/tekton/run/1").Name = "other" }, false},
		"a first step that doesn't wait":            {func(p *corev1.Pod) { p.Spec.Containers[0].Args = p.Spec.Containers[0].Args[3:] }, false},
		"a first step that waits for other content": {func(p *corev1.Pod) { p.Spec.Containers[0].Args[1] = "/tekton/downward/other" }, false},
		"words in another order": {func(p *corev1.Pod) {
			args := p.Spec.Containers[0].Args
			args[0], args[1], args[2] = "-wait_file_content", "-wait_file", "/tekton/downward/ready"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := stepsPod(t, 2)
			test.change(p)
			if name == "too many" {
				for at := range p.Spec.Containers {
					p.Spec.Containers[at].Name = "step-" + strconv.Itoa(at)
				}
			}
			for at, flags := range ofStarts(inject(t, newInjector(nil), p).Pod) {
				if test.none {
					require.Empty(t, flags)
				} else {
					require.Len(t, flags, 1, "step %d tells of its start, in vain: %v", at, flags)
				}
			}
		})
	}
	t.Run("not by native sidecars", func(t *testing.T) {
		p := stepsPod(t, 1)
		native := running("native", "x")
		native.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, native)
		require.Len(t, ofStarts(inject(t, newInjector(nil), p).Pod)[0], 3)
	})
}

// Another webhook adds a container after ours, so the API server asks ours again.
func TestAContainerThatComesLaterGivesTheFirstStepBackToTekton(t *testing.T) {
	once := inject(t, newInjector(nil), stepsPod(t, 2)).Pod
	require.Len(t, ofStarts(once)[0], 4)
	once.Spec.Containers = append(once.Spec.Containers, running("istio-proxy", "proxy"))
	again := inject(t, newInjector(nil), once)
	require.Equal(t, [][]string{nil, nil, nil}, ofStarts(again.Pod))
	require.Contains(t, again.Pod.Spec.Containers[0].Args, "-wait-content=/tekton/downward/ready")
}

func TestTurnedOffTheFirstStepWaitsForTekton(t *testing.T) {
	p := annotated(stepsPod(t, 2), "entrypointer.dev/hand-off", "false")
	require.Equal(t, [][]string{nil, nil}, ofStarts(inject(t, newInjector(nil), p).Pod))
}

func mountAt(p *corev1.Pod, container int, path string) *corev1.VolumeMount {
	mounts := p.Spec.Containers[container].VolumeMounts
	return &mounts[slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })]
}
