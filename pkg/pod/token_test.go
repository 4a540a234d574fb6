// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// accountPath is where an API server mounts the token of the pod's service account.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// mountToken does to a pod what the API server's ServiceAccount admission does, before
// webhooks and again after one has changed the pod. test/apiserver runs that admission.
func mountToken(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if len(mountsAt(*c, accountPath)) == 0 {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: accountPath, ReadOnly: true})
			}
		}
	}
	return p
}

func mountsAt(c corev1.Container, path string) (found []corev1.VolumeMount) {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			found = append(found, m)
		}
	}
	return found
}

// An init container without a mount at this path gets one, so that the API server asks
// about the pod a second time.
func TestAnAPIServerHasNoTokenToMountAfterwards(t *testing.T) {
	for name, test := range map[string]struct {
		injector *pod.Injector
		volumes  []string // that are mounted instead of a token, in the init containers
	}{
		"an init container":                   {newInjector(nil), []string{pod.VolumeName}},
		"an init container, and tools":        {offering(pod.DeliveryInitContainer, ni, yq), []string{pod.VolumeName, pod.ToolsVolumeName, pod.ToolsVolumeName}},
		"an image volume, and tools":          {offering(pod.DeliveryImageVolume, ni, yq), []string{pod.ToolsVolumeName, pod.ToolsVolumeName}},
		"an image volume, tools from another": {offering(pod.DeliveryImageVolume, ni), nil},
	} {
		t.Run(name, func(t *testing.T) {
			sent := mountToken(asking(running("a", "x")))
			if len(test.injector.Tools) > 0 {
				sent = withTools(sent, "ni")
			}
			if len(test.injector.Tools) > 1 {
				sent = withTools(sent, "ni, yq")
			}
			wrapped := inject(t, test.injector, sent).Pod
			require.Equal(t, wrapped, mountToken(wrapped), "the API server has nothing to add")
			var volumes []string
			for _, c := range wrapped.Spec.InitContainers {
				for _, m := range mountsAt(c, accountPath) {
					require.Equal(t, corev1.VolumeMount{Name: m.Name, MountPath: accountPath, ReadOnly: true}, m)
					volumes = append(volumes, m.Name)
				}
			}
			require.Equal(t, test.volumes, volumes)
			require.Equal(t, "kube-api-access-x", mountsAt(wrapped.Spec.Containers[0], accountPath)[0].Name, "the author's container keeps its token")
			requireSamePod(t, wrapped, patched(t, sent, wrapped), "the patch leads elsewhere")
		})
	}
}

func TestAPodThatGetsNoTokenNeedsNothingInItsPlace(t *testing.T) {
	sent := withTools(asking(running("a", "x")), "ni")
	sent.Spec.AutomountServiceAccountToken = new(false)
	for _, c := range inject(t, offering(pod.DeliveryInitContainer, ni), sent).Pod.Spec.InitContainers {
		require.Empty(t, mountsAt(c, accountPath), c.Name)
	}
}

// Releases may answer for one pod in turn, the API server's own admission between them.
// The former release mounts nothing in the place of the token, and removes what it doesn't
// know of our volumes.
func TestAPodOfTheReleaseThatLetTokensInStaysAsItIs(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	wrapped := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
	former := wrapped.DeepCopy()
	for i, c := range former.Spec.InitContainers {
		former.Spec.InitContainers[i].VolumeMounts = slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool { return m.MountPath == accountPath })
	}
	t.Run("with its token", func(t *testing.T) {
		between := mountToken(former)
		result := inject(t, injector, between)
		require.Equal(t, pod.AlreadyInjected, result.Outcome)
		require.Equal(t, between, result.Pod)
	})
	t.Run("before it has one", func(t *testing.T) {
		result := inject(t, injector, former)
		requireSamePod(t, wrapped, result.Pod, "it is to be as we make it")
		requireSamePod(t, result.Pod, patched(t, former, result.Pod), "the patch leads elsewhere")
		require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
	})
}

// Two mounts at one path would be refused by the API server: ours gives way.
func TestAnotherWebhooksTokenTakesThePlaceOfOurMount(t *testing.T) {
	theirs := corev1.VolumeMount{Name: "theirs", MountPath: accountPath, ReadOnly: true}
	injector := offering(pod.DeliveryInitContainer, ni)
	for _, first := range []bool{true, false} {
		p := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
		for i, c := range p.Spec.InitContainers {
			at := len(c.VolumeMounts)
			if first {
				at = 0
			}
			p.Spec.InitContainers[i].VolumeMounts = slices.Insert(slices.Clone(c.VolumeMounts), at, theirs)
		}
		result := inject(t, injector, p)
		for _, c := range result.Pod.Spec.InitContainers {
			require.Equal(t, []corev1.VolumeMount{theirs}, mountsAt(c, accountPath), c.Name)
		}
		requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
		require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
	}
}

func TestAForgedMountInThePlaceOfTheTokenIsRepaired(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	wrapped := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
	for name, forge := range map[string]func(*corev1.VolumeMount){
		"writable":         func(m *corev1.VolumeMount) { m.ReadOnly = false },
		"a part of it":     func(m *corev1.VolumeMount) { m.SubPath = "x" },
		"a named part":     func(m *corev1.VolumeMount) { m.SubPathExpr = "$(X)" },
		"beside the place": func(m *corev1.VolumeMount) { m.MountPath += "/x" },
	} {
		t.Run(name, func(t *testing.T) {
			requireRepaired(t, injector, wrapped, func(p *corev1.Pod) {
				for i := range p.Spec.InitContainers {
					mounts := p.Spec.InitContainers[i].VolumeMounts
					forge(&mounts[len(mounts)-1])
				}
			})
		})
	}
}
