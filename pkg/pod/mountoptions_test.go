// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// withMountOptions is a pod as Kubernetes 1.37 sends it after a policy has set options of
// the mounts that are chosen.
func withMountOptions(t *testing.T, p *corev1.Pod, chosen func(container string, m corev1.VolumeMount) bool, options ...any) []byte {
	t.Helper()
	encoded, err := json.Marshal(p)
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(encoded, &document))
	set := func(list string, containers []corev1.Container) {
		for i, c := range containers {
			of := document["spec"].(map[string]any)[list].([]any)[i].(map[string]any)
			for j, m := range c.VolumeMounts {
				if chosen(c.Name, m) {
					of["volumeMounts"].([]any)[j].(map[string]any)["bindMountOptions"] = options
				}
			}
		}
	}
	set("initContainers", p.Spec.InitContainers)
	set("containers", p.Spec.Containers)
	encoded, err = json.Marshal(document)
	require.NoError(t, err)
	return encoded
}

func TestAPodWhoseSupervisorOrToolsCanNotBeStartedIsRefused(t *testing.T) {
	all := func(string, corev1.VolumeMount) bool { return true }
	ofVolume := func(volume, container string) func(string, corev1.VolumeMount) bool {
		return func(c string, m corev1.VolumeMount) bool { return c == container && m.Name == volume }
	}
	for name, test := range map[string]struct {
		chosen  func(string, corev1.VolumeMount) bool
		options []any
		refused string // what the refusal names, "" for none
	}{
		"all mounts":                             {all, []any{"noexec"}, `container "entrypointer-tool-ni" mounts volume "entrypointer-bin" at "/entrypointer/bin"`},
		"the supervisor's":                       {ofVolume(pod.VolumeName, "a"), []any{"nosuid", "noexec"}, `container "a" mounts volume "entrypointer-bin" at "/entrypointer/bin"`},
		"the tools'":                             {ofVolume(pod.ToolsVolumeName, "a"), []any{"noexec"}, `container "a" mounts volume "entrypointer-tools" at "/entrypointer/tools"`},
		"of what copies a tool":                  {ofVolume(pod.VolumeName, "entrypointer-tool-ni"), []any{"noexec"}, `container "entrypointer-tool-ni" mounts`},
		"of what writes the supervisor":          {ofVolume(pod.VolumeName, pod.InitContainerName), []any{"noexec"}, ""},
		"of what writes a tool":                  {ofVolume(pod.ToolsVolumeName, "entrypointer-tool-ni"), []any{"noexec"}, ""},
		"the author's":                           {ofVolume("theirs", "a"), []any{"noexec"}, ""},
		"all mounts, by options that do no harm": {all, []any{"nosuid", "nodev"}, ""},
		"all mounts, by no option":               {all, []any{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			injector := offering(pod.DeliveryInitContainer, ni)
			asks := withTools(asking(running("a", "x")), "ni")
			asks.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "theirs", MountPath: "/theirs"}}
			document := withMountOptions(t, inject(t, injector, asks).Pod, test.chosen, test.options...)
			var sent corev1.Pod
			require.NoError(t, json.Unmarshal(document, &sent))
			err := pod.CheckMountOptions(document, inject(t, injector, &sent))
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			var refusal *pod.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, pod.NoExec, refusal.Outcome)
			require.ErrorContains(t, err, test.refused)
			require.ErrorContains(t, err, "with bindMountOptions: [noexec]")
			require.ErrorContains(t, err, "exclude this volume from the policy")
		})
	}
}

func TestMountOptionsOfAPodThatRunsUnwrappedAreItsOwn(t *testing.T) {
	p := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	p.Annotations[pod.InjectAnnotation] = "false"
	document := withMountOptions(t, p, func(string, corev1.VolumeMount) bool { return true }, "noexec")
	result := inject(t, newInjector(nil), p)
	require.Equal(t, pod.OptedOut, result.Outcome)
	require.NoError(t, pod.CheckMountOptions(document, result))
}

func TestMountOptionsThatCanNotBeReadAreAnError(t *testing.T) {
	p := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	document := withMountOptions(t, p, func(string, corev1.VolumeMount) bool { return true }, 1)
	require.ErrorContains(t, pod.CheckMountOptions(document, inject(t, newInjector(nil), p)), "reading bindMountOptions of the pod's mounts")
}
