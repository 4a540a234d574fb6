// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// shares has a container of a pod share directories.
func shares(p *corev1.Pod, container, value string) *corev1.Pod {
	return annotated(p, "shared-directory.entrypointer.dev/"+container, value)
}

// sharedOf are a container's shared directories, by volume and path.
func sharedOf(c corev1.Container) map[string]string {
	found := map[string]string{}
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(m.Name, pod.SharedVolumePrefix) {
			found[m.Name] = m.MountPath
		}
	}
	return found
}

// sharedVolumes are the pod's volumes for them.
func sharedVolumes(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		if strings.HasPrefix(v.Name, pod.SharedVolumePrefix) {
			names = append(names, v.Name)
		}
	}
	return names
}

func TestContainersThatNameADirectorySeeTheSameOne(t *testing.T) {
	sent := shares(shares(shares(abc(), "a", "sockets, data"), "b", "sockets"), "c", "data")
	injector := newInjector(nil)
	result := inject(t, injector, sent)
	require.Empty(t, result.Warnings)
	const sockets, data = "entrypointer-shared-sockets", "entrypointer-shared-data"
	require.Equal(t, []string{data, sockets}, sharedVolumes(result.Pod))
	for at, want := range []map[string]string{
		{sockets: "/entrypointer/shared/sockets", data: "/entrypointer/shared/data"},
		{sockets: "/entrypointer/shared/sockets"},
		{data: "/entrypointer/shared/data"},
	} {
		require.Equal(t, want, sharedOf(result.Pod.Spec.Containers[at]))
		require.Empty(t, flagsBefore(result.Pod, at), "the kubelet makes it, and nobody else has to")
	}
	for _, v := range result.Pod.Spec.Volumes[1:] {
		require.Equal(t, corev1.StorageMediumDefault, v.EmptyDir.Medium)
		require.Equal(t, resource.MustParse("1Gi"), *v.EmptyDir.SizeLimit)
	}
	requireSamePod(t, result.Pod, patched(t, sent, result.Pod), "the patch leads elsewhere")
	again := inject(t, injector, result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

// What is in it is the containers' own, as in an emptyDir of the author's.
func TestASharedDirectoryCountsAsItsAuthorsOwn(t *testing.T) {
	p := shares(shares(abc(), "a", "x"), "b", "x")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("64Mi")}
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Equal(t, corev1.StorageMediumMemory, wrapped.Spec.Volumes[0].EmptyDir.Medium, "the copy's is ours")
	require.Equal(t, corev1.StorageMediumDefault, wrapped.Spec.Volumes[1].EmptyDir.Medium)
	require.Equal(t, pod.VolumeName, wrapped.Annotations[safeToEvict], "there may be something to lose")
}

func TestStepsShareDirectoriesAsWell(t *testing.T) {
	p := shares(shares(asking(running("step-a", "x"), running("step-b", "x")), "step-a", "cache"), "step-b", "cache")
	p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
	result := inject(t, newInjector(nil), p)
	require.Empty(t, result.Warnings)
	require.Equal(t, []string{"entrypointer-shared-cache"}, sharedVolumes(result.Pod))
}

func TestADirectoryOfASingleContainerIsWarnedOf(t *testing.T) {
	result := inject(t, newInjector(nil), shares(shares(abc(), "a", "x, y"), "b", "x"))
	require.Equal(t, []pod.Warning{{Reason: pod.ReasonDirectoryNotShared, Message: `annotation shared-directory.entrypointer.dev/a: no other container of the pod shares directory "y"`}}, result.Warnings)
	require.Len(t, sharedVolumes(result.Pod), 2, "it gets it all the same")
}

func TestAWrongNameOfASharedDirectoryIsRefused(t *testing.T) {
	longest := strings.Repeat("x", 43)
	wrapped := inject(t, newInjector(nil), shares(shares(abc(), "a", longest), "b", longest)).Pod
	require.Empty(t, validation.IsDNS1123Label(sharedVolumes(wrapped)[0]))
	many := make([]string, 17)
	for i := range many {
		many[i] = "d" + string(rune('a'+i))
	}
	for _, value := range []string{"", ",", "A", "../x", "a/b", "-x", "x-", "x.y", "x, x", longest + "x", "x:memory", strings.Join(many, ",")} {
		requireRefused(t, refusal(t, newInjector(nil), shares(abc(), "a", value)), pod.InvalidAnnotation,
			"reading annotation shared-directory.entrypointer.dev/a", "is wrong; it can be names of directories")
	}
	require.NoError(t, refusal(t, newInjector(nil), shares(abc(), "a", strings.Join(many[:16], "\n"))))
	requireRefused(t, refusal(t, newInjector(nil), shares(shares(abc(), "a", strings.Join(many[:16], ",")), "b", many[16])), pod.InvalidAnnotation,
		"the containers share 17 directories, and a pod can have 16")
}

func TestAContainerThatCannotShareADirectoryIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"an absent container": {func(p *corev1.Pod) { shares(p, "nobody", "x") }, `the pod has no container "nobody"`},
		"a container that is left out": {func(p *corev1.Pod) {
			shares(annotated(p, "entrypointer.dev/containers", "b"), "c", "x")
		}, `container "c" gets no shared directory, because it isn't wrapped`},
		"a proxy": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			shares(p, "istio-proxy", "x")
		}, "proxies that other webhooks add are left alone"},
		"a sidecar of Tekton's": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Name, p.Spec.Containers[1].Name = "step-a", "sidecar-b"
			p.Labels = map[string]string{"tekton.dev/taskRun": "t"}
			shares(p, "sidecar-b", "x")
		}, `container "sidecar-b" gets no shared directory`},
		"all containers": {func(p *corev1.Pod) { annotated(p, "entrypointer.dev/shared-directory", "x") }, "write shared-directory.entrypointer.dev/CONTAINER"},
	} {
		t.Run(name, func(t *testing.T) {
			p := abc()
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, test.says)
		})
	}
	injector := newInjector(nil)
	injector.Policy.PodOptions = []string{"mode"}
	requireRefused(t, refusal(t, injector, shares(abc(), "a", "x")), pod.InvalidAnnotation, "the operator doesn't let pods set this option")
}

// A container that would run unwrapped would lack its directory.
func TestAFailedLookupIsNotWaivedForAContainerThatSharesADirectory(t *testing.T) {
	injector := newInjector(nil)
	injector.Policy.WaiveFailedLookups = true
	p := shares(shares(abc(), "a", "x"), "b", "x")
	p.Spec.Containers[1].Command = nil
	requireRefused(t, refusal(t, injector, p), pod.LookupFailed, `wrapping container "b"`)
}

func TestNamesAndPathsOfSharedDirectoriesThatAreTakenAreRefused(t *testing.T) {
	mounts := func(container int, m corev1.VolumeMount) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[container].VolumeMounts = append(p.Spec.Containers[container].VolumeMounts, m)
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"a volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "entrypointer-shared-x", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, `adding volume "entrypointer-shared-x": the pod has another one of this name; rename it`},
		"a mount there": {mounts(0, corev1.VolumeMount{Name: "v", MountPath: "/entrypointer/shared"}), "mount it elsewhere"},
		"a mount below": {mounts(0, corev1.VolumeMount{Name: "v", MountPath: "/entrypointer/shared/x/y"}), "mount it elsewhere"},
		"a mount of another": {
			mounts(2, corev1.VolumeMount{Name: "entrypointer-shared-x", MountPath: "/data"}),
			`container "c" mounts it at "/data", and only containers that share the directory have such a volume; use another volume, or annotation shared-directory.entrypointer.dev/c`,
		},
		"an init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{{Name: "entrypointer-shared-x", MountPath: "/entrypointer/shared/x"}}}}
		}, `container "i" mounts it`},
	} {
		t.Run(name, func(t *testing.T) {
			p := shares(shares(abc(), "a", "x"), "b", "x")
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.NameCollision, test.says)
		})
	}
}

func TestAForgedSharedDirectoryIsRepaired(t *testing.T) {
	injector := newInjector(nil)
	wrapped := inject(t, injector, shares(shares(abc(), "a", "x"), "b", "x")).Pod
	mount := func(change func(*corev1.VolumeMount)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0].VolumeMounts[1]) }
	}
	for name, forge := range map[string]func(*corev1.Pod){
		"read-only":         mount(func(m *corev1.VolumeMount) { m.ReadOnly = true }),
		"a part of it":      mount(func(m *corev1.VolumeMount) { m.SubPath = "other" }),
		"propagated":        mount(func(m *corev1.VolumeMount) { m.MountPropagation = new(corev1.MountPropagationBidirectional) }),
		"written otherwise": mount(func(m *corev1.VolumeMount) { m.MountPath += "/" }),
		"a mount gone":      func(p *corev1.Pod) { c := &p.Spec.Containers[0]; c.VolumeMounts = c.VolumeMounts[:1] },
		"the volume gone":   func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:1] },
		"another size":      func(p *corev1.Pod) { p.Spec.Volumes[1].EmptyDir.SizeLimit = nil },
		"in memory":         func(p *corev1.Pod) { p.Spec.Volumes[1].EmptyDir.Medium = corev1.StorageMediumMemory },
		"mounted twice": func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, c.VolumeMounts[1])
		},
		"a mount in another": func(p *corev1.Pod) {
			p.Spec.Containers[2].VolumeMounts = append(p.Spec.Containers[2].VolumeMounts, p.Spec.Containers[0].VolumeMounts[1])
		},
	} {
		t.Run(name, func(t *testing.T) { requireRepaired(t, injector, wrapped, forge) })
	}
}

// What of an earlier look isn't asked for any more.
func TestADirectoryThatIsNoLongerSharedIsRemoved(t *testing.T) {
	injector := newInjector(nil)
	sharings := map[string]func() *corev1.Pod{
		"nothing":   abc,
		"one":       func() *corev1.Pod { return shares(shares(abc(), "a", "x"), "b", "x") },
		"two":       func() *corev1.Pod { return shares(shares(abc(), "a", "x, y"), "c", "y, x") },
		"another":   func() *corev1.Pod { return shares(shares(abc(), "b", "z"), "c", "z") },
		"with more": func() *corev1.Pod { return dependsOn(shares(shares(abc(), "a", "x"), "c", "x"), "a", "b:started") },
	}
	for first, before := range sharings {
		for last, after := range sharings {
			t.Run(first+" and then "+last, func(t *testing.T) {
				want := after()
				p := inject(t, injector, before()).Pod
				maps.DeleteFunc(p.Annotations, func(key, _ string) bool {
					return strings.HasPrefix(key, "shared-directory.") || strings.HasPrefix(key, "depends-on.")
				})
				maps.Copy(p.Annotations, want.Annotations)
				result := inject(t, injector, p)
				wanted := inject(t, injector, want).Pod
				require.ElementsMatch(t, wanted.Spec.Volumes, result.Pod.Spec.Volumes)
				for at, c := range wanted.Spec.Containers {
					require.ElementsMatch(t, c.VolumeMounts, result.Pod.Spec.Containers[at].VolumeMounts)
				}
				requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
				require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
			})
		}
	}
}

func TestASharedDirectoryIsOfOnePodOnly(t *testing.T) {
	annotations := map[string]string{"entrypointer.dev/shared-directory": "x"}
	require.Empty(t, pod.NamespaceDefaults("tenant", annotations).Values)
	require.Equal(t, []string{"entrypointer: annotation entrypointer.dev/shared-directory has no effect on a namespace: it is for pods"}, pod.Messages(pod.IgnoredOnNamespace(annotations)))
}
