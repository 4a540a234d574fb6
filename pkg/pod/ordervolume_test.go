// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// orderVolumes are the names of the volumes by which containers tell each other how
// they are doing.
func orderVolumes(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		if strings.HasPrefix(v.Name, pod.OrderVolumePrefix) {
			names = append(names, v.Name)
		}
	}
	return names
}

// orderMounts are a container's mounts of these.
func orderMounts(c corev1.Container) (mounts []string) {
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(m.Name, pod.OrderVolumePrefix) {
			rights := ":rw"
			if m.ReadOnly {
				rights = ":ro"
			}
			mounts = append(mounts, m.MountPath+rights)
		}
	}
	return mounts
}

// a waits for b, and b for c.
func chain() *corev1.Pod {
	return dependsOn(dependsOn(abc(), "a", "b:started"), "b", "c:started")
}

func TestAContainerCanSpeakForItselfOnly(t *testing.T) {
	p := chain()
	p.Spec.Containers = append(p.Spec.Containers, running("apart", "x"))
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Equal(t, []string{"entrypointer-order-b", "entrypointer-order-c"}, orderVolumes(wrapped))
	for at, want := range [][]string{
		{"/entrypointer/order/b:ro"},
		{"/entrypointer/order/b:rw", "/entrypointer/order/c:ro"},
		{"/entrypointer/order/c:rw"},
		nil,
	} {
		require.Equal(t, want, orderMounts(wrapped.Spec.Containers[at]))
		require.Equal(t, at < 2, wrapped.Spec.Containers[at].StartupProbe != nil)
	}
}

func TestALongNameIsHashedInTheNameOfItsVolume(t *testing.T) {
	for length, want := range map[int]string{
		44: "entrypointer-order-" + strings.Repeat("b", 44),
		45: "entrypointer-order--47a12102b11d75df9e7b4d89cd2f26b23b08dadb",
		63: "entrypointer-order--94e419fabac7f930810f9636354042f8c1426d2f",
	} {
		name := strings.Repeat("b", length)
		p := atOnce(dependsOn(asking(running("a", "x"), running(name, "x")), "a", name+":started"))
		wrapped := inject(t, newInjector(nil), p).Pod
		volume := orderVolumes(wrapped)[0]
		require.Len(t, orderVolumes(wrapped), 1)
		require.Equal(t, want, volume)
		require.Empty(t, validation.IsDNS1123Label(volume))
		require.Equal(t, []string{"/entrypointer/order/" + name + ":ro"}, orderMounts(wrapped.Spec.Containers[0]))
		require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), wrapped).Outcome)
	}
}

// After a reboot, the kubelet doesn't run again what has completed under OnFailure.
func TestTheOrderIsOnDiskAlsoWhereDiskIsLimited(t *testing.T) {
	p := chain()
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("64Mi")}
	wrapped := inject(t, newInjector(nil), p).Pod
	inMemory := wrapped.DeepCopy()
	for i, v := range inMemory.Spec.Volumes {
		if strings.HasPrefix(v.Name, "entrypointer-order-") {
			require.Equal(t, corev1.StorageMediumDefault, v.EmptyDir.Medium, v.Name)
			inMemory.Spec.Volumes[i].EmptyDir.Medium = corev1.StorageMediumMemory
		}
	}
	again := inject(t, newInjector(nil), inMemory).Pod
	require.Equal(t, wrapped.Spec.Volumes, again.Spec.Volumes)
}

// What of an earlier look isn't asked for any more.
func TestLeftoversOfAnEarlierCallAreRemoved(t *testing.T) {
	injector := newInjector(nil)
	orders := map[string]func() *corev1.Pod{
		"none":       abc,
		"a chain":    chain,
		"another":    func() *corev1.Pod { return dependsOn(abc(), "c", "a:exited, b:started") },
		"one of two": func() *corev1.Pod { return dependsOn(abc(), "a", "b:exited") },
		"a helper":   func() *corev1.Pod { return stopWhen(abc(), "a", "b:exited") },
	}
	for first, before := range orders {
		for last, after := range orders {
			t.Run(first+" and then "+last, func(t *testing.T) {
				want := after()
				p := inject(t, injector, before()).Pod
				for key := range p.Annotations {
					if strings.HasPrefix(key, "depends-on.") || strings.HasPrefix(key, "stop-when.") {
						delete(p.Annotations, key)
					}
				}
				maps.Copy(p.Annotations, want.Annotations)
				result := inject(t, injector, p)
				wanted := inject(t, injector, want).Pod
				require.ElementsMatch(t, wanted.Spec.Volumes, result.Pod.Spec.Volumes)
				for at, c := range wanted.Spec.Containers {
					is := result.Pod.Spec.Containers[at]
					require.ElementsMatch(t, c.VolumeMounts, is.VolumeMounts)
					require.Equal(t, c.StartupProbe, is.StartupProbe)
					require.Equal(t, c.Args, is.Args)
				}
				require.Equal(t, wanted.Annotations[pod.StatusAnnotation], result.Pod.Annotations[pod.StatusAnnotation])
				requireSamePod(t, result.Pod, patched(t, p, result.Pod), "the patch leads elsewhere")
				require.Equal(t, pod.AlreadyInjected, inject(t, injector, result.Pod).Outcome)
			})
		}
	}
}

// Each of these would let one container speak for another, or never be heard.
func TestAForgedOrderIsRepaired(t *testing.T) {
	injector := newInjector(nil)
	wrapped := func() *corev1.Pod { return inject(t, injector, chain()).Pod }
	mount := func(container, at int, change func(*corev1.VolumeMount)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[container].VolumeMounts[at]) }
	}
	for name, forge := range map[string]func(*corev1.Pod){
		"a container that waits may write":   mount(0, 1, func(m *corev1.VolumeMount) { m.ReadOnly = false }),
		"an awaited container may not write": mount(1, 1, func(m *corev1.VolumeMount) { m.ReadOnly = true }),
		"a part of the volume":               mount(0, 1, func(m *corev1.VolumeMount) { m.SubPath = "evil" }),
		"a part that a variable names":       mount(0, 1, func(m *corev1.VolumeMount) { m.SubPathExpr = "$(EVIL)" }),
		"a mount that is propagated":         mount(1, 1, func(m *corev1.VolumeMount) { m.MountPropagation = new(corev1.MountPropagationBidirectional) }),
		"mounted twice": func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, c.VolumeMounts[1])
		},
		"a mount for a container outside the order": func(p *corev1.Pod) {
			p.Spec.Containers[2].VolumeMounts = append(p.Spec.Containers[2].VolumeMounts, p.Spec.Containers[1].VolumeMounts[1])
		},
		"a mount of nothing that we add": func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "entrypointer-order-x", MountPath: "/entrypointer/order/x"})
		},
		"a mount gone":             func(p *corev1.Pod) { c := &p.Spec.Containers[0]; c.VolumeMounts = c.VolumeMounts[:1] },
		"a volume gone":            func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:2] },
		"a volume of another size": func(p *corev1.Pod) { p.Spec.Volumes[1].EmptyDir.SizeLimit = nil },
		"a volume without a use": func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "entrypointer-order-a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "entrypointer-order-a", MountPath: "/entrypointer/order/a"})
		},
		"a probe that gives up":    func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe.FailureThreshold = 1 },
		"no probe":                 func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = nil },
		"a probe that isn't asked": func(p *corev1.Pod) { p.Spec.Containers[2].StartupProbe = p.Spec.Containers[0].StartupProbe },
		"other flags":              func(p *corev1.Pod) { p.Spec.Containers[0].Args[0] = "-depends-on=started:/evil" },
		"no flags":                 func(p *corev1.Pod) { p.Spec.Containers[0].Args = p.Spec.Containers[0].Args[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			requireRepaired(t, injector, wrapped(), forge)
		})
	}
}

func TestNamesAndPathsOfTheOrderThatAreTakenAreRefused(t *testing.T) {
	mounting := func(path string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { mountedAt(path)(&p.Spec.Containers[0]) }
	}
	strange := corev1.VolumeMount{Name: "entrypointer-order-b", MountPath: "/x"}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		says   string
	}{
		"a volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "entrypointer-order-b", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, `adding volume "entrypointer-order-b": the pod has another one of this name; rename it`},
		"a mount there":   {mounting("/entrypointer/order"), `where volume "entrypointer-order-b" belongs`},
		"a mount below":   {mounting("entrypointer/order/x/y"), "mount it elsewhere"},
		"a mount not far": {mounting("/entrypointer/order/../order/b"), "mount it elsewhere"},
		"a device": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/entrypointer/order/d"}}
		}, `its volume "d"`},
		"a message": {func(p *corev1.Pod) { p.Spec.Containers[0].TerminationMessagePath = "/entrypointer/order/b/state" }, "terminationMessagePath"},
		"an init container that may write": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{running("evil", "x")}
			p.Spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{strange}
		}, `container "evil" mounts it at "/x"`},
		"a proxy that may write": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, running("istio-proxy", "x"))
			p.Spec.Containers[3].VolumeMounts = []corev1.VolumeMount{{Name: "entrypointer-order-b", MountPath: "/entrypointer/order/b"}}
		}, `container "istio-proxy" mounts it at "/entrypointer/order/b"`},
		"a container that waits, elsewhere": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{strange}
		}, `container "a" mounts it at "/x"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := chain()
			test.change(p)
			requireRefused(t, refusal(t, newInjector(nil), p), pod.NameCollision, test.says)
			// Who has no order has the names for himself.
			for key := range p.Annotations {
				if strings.HasPrefix(key, "depends-on.") {
					delete(p.Annotations, key)
				}
			}
			after := inject(t, newInjector(nil), p).Pod
			for at, v := range p.Spec.Volumes {
				require.Equal(t, v, after.Spec.Volumes[at])
			}
			for at, c := range p.Spec.Containers {
				for i, m := range c.VolumeMounts {
					require.Equal(t, m, after.Spec.Containers[at].VolumeMounts[i])
				}
			}
		})
	}
}

func TestAProbeOfTheAuthorsStaysInAContainerThatDoesNotWait(t *testing.T) {
	theirs := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}}}
	p := chain()
	p.Spec.Containers[2].StartupProbe = theirs
	p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = theirs, theirs
	wrapped := inject(t, newInjector(nil), p).Pod
	require.Equal(t, theirs, wrapped.Spec.Containers[2].StartupProbe)
	require.Equal(t, theirs, wrapped.Spec.Containers[0].LivenessProbe)
	require.Equal(t, theirs, wrapped.Spec.Containers[0].ReadinessProbe)
}

func TestTheOrderKeepsNoNodeFromBeingDrained(t *testing.T) {
	p := chain()
	wrapped := inject(t, newInjector(nil), p).Pod
	require.ElementsMatch(t, []string{pod.VolumeName, "entrypointer-order-b", "entrypointer-order-c"}, strings.Split(wrapped.Annotations[safeToEvict], ","))

	p.Annotations["theirs"] = strings.Repeat("x", annotationsLimit)
	result := inject(t, newInjector(nil), p)
	about := slices.DeleteFunc(result.Warnings, func(w pod.Warning) bool { return !strings.Contains(w.Message, safeToEvict) })
	require.NotEmpty(t, about)
	require.Len(t, slices.Compact(about), 1)
}
