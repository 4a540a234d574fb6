// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// changedInit is a wrapped pod whose init container was changed afterwards.
func changedInit(t *testing.T, change func(*corev1.Container)) *corev1.Pod {
	t.Helper()
	p := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	change(&p.Spec.InitContainers[0])
	return p
}

func mountedAt(path string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "theirs", MountPath: path})
	}
}

// Each of these would have another program copied, or this one too late, or
// give it rights that it doesn't need.
func TestAForgedInitContainerIsRepaired(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	bidirectional := corev1.MountPropagationBidirectional
	ours := func(change func(*corev1.VolumeMount)) func(*corev1.Container) {
		return func(c *corev1.Container) { change(&c.VolumeMounts[0]) }
	}
	rights := func(change func(*corev1.SecurityContext)) func(*corev1.Container) {
		return func(c *corev1.Container) { change(c.SecurityContext) }
	}
	for name, forge := range map[string]func(*corev1.Container){
		"another image":                func(c *corev1.Container) { c.Image = "evil" },
		"another digest":               func(c *corev1.Container) { c.Image = copierImage[:len(copierImage)-1] + "2" },
		"our image by its tag":         func(c *corev1.Container) { c.Image = "registry.example.test/copier" },
		"a command":                    func(c *corev1.Container) { c.Command = []string{"/evil"} },
		"other args":                   func(c *corev1.Container) { c.Args = []string{"/entrypointer/bin/other"} },
		"a working directory":          func(c *corev1.Container) { c.WorkingDir = "/evil" },
		"a volume over its program":    mountedAt("/ko-app"),
		"a file over its program":      mountedAt("/ko-app/copier"),
		"a volume over all":            mountedAt("/"),
		"a volume around ours":         mountedAt("/entrypointer"),
		"a file in ours":               mountedAt("/entrypointer/bin/entrypoint"),
		"a path that isn't absolute":   mountedAt("ko-app/"),
		"a path that isn't clean":      mountedAt("//tmp/./../ko-app"),
		"a path by links of the image": mountedAt("/var/run/../x"),
		"what it reads itself from":    mountedAt("/proc/self/exe"),
		"another /proc":                mountedAt("/proc"),
		"a device over its program": func(c *corev1.Container) {
			c.VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/ko-app/copier"}}
		},
		"a message over its program":    func(c *corev1.Container) { c.TerminationMessagePath = "/ko-app/copier" },
		"a part of the volume":          ours(func(m *corev1.VolumeMount) { m.SubPath = "evil" }),
		"a part that a variable names":  ours(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(EVIL)" }),
		"a volume that can't be filled": ours(func(m *corev1.VolumeMount) { m.ReadOnly = true }),
		"a volume that others change":   ours(func(m *corev1.VolumeMount) { m.MountPropagation = &bidirectional }),
		"our volume elsewhere, too": func(c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: pod.VolumeName, MountPath: "/x"})
		},
		"a native sidecar": func(c *corev1.Container) {
			c.RestartPolicy = &always
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/evil"}}}}
			c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/evil"}}}}
			c.LivenessProbe, c.ReadinessProbe = c.StartupProbe, c.StartupProbe
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}}
		},
		"a failure that counts as none": func(c *corev1.Container) {
			c.RestartPolicy = &never
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
		},
		"no security context":       func(c *corev1.Container) { c.SecurityContext = nil },
		"root":                      rights(func(s *corev1.SecurityContext) { s.RunAsUser, s.RunAsNonRoot = new(int64(0)), nil }),
		"a privileged one":          rights(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = new(true), nil }),
		"capabilities":              rights(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }),
		"capabilities that it kept": rights(func(s *corev1.SecurityContext) { s.Capabilities.Drop = []corev1.Capability{"NET_RAW"} }),
		"a root to write to":        rights(func(s *corev1.SecurityContext) { s.ReadOnlyRootFilesystem = new(false) }),
		"no seccomp": rights(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}),
		"no AppArmor": rights(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}),
		"all of /proc": rights(func(s *corev1.SecurityContext) { s.ProcMount = new(corev1.UnmaskedProcMount) }),
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), changedInit(t, forge))
			requireSamePod(t, changedInit(t, func(*corev1.Container) {}), result.Pod, "it is to be as we make it")
			require.Equal(t, pod.Injected, result.Outcome)
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

// Well-known webhooks do these to every container that they find.
func TestWhatOtherWebhooksAddToTheInitContainerStays(t *testing.T) {
	none := corev1.MountPropagationNone
	for name, change := range map[string]func(*corev1.Container){
		"a mirror's name for the image": func(c *corev1.Container) {
			c.Image = "mirror.example.test/proxy/copier:v1" + copierImage[len("registry.example.test/copier"):]
		},
		"a pull policy":                   func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways },
		"a cloud's token":                 mountedAt("/var/run/secrets/eks.amazonaws.com/serviceaccount"),
		"Vault's secrets":                 mountedAt("/vault/secrets"),
		"certificates":                    mountedAt("/etc/ssl/certs/ca-certificates.crt"),
		"a library to preload":            mountedAt("/etc/ld.so.preload"),
		"a name that begins like ours":    mountedAt("/entrypointer-data"),
		"a name that begins like another": mountedAt("/ko-apps"),
		"a mount before ours": func(c *corev1.Container) {
			c.VolumeMounts = append([]corev1.VolumeMount{{Name: "theirs", MountPath: "/theirs"}}, c.VolumeMounts...)
		},
		"variables": func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "LD_PRELOAD", Value: "/lib/theirs.so"}}
			c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
		},
		"resources": func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: {}} },
		"a user":    func(c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(1000680000)) },
		"SELinux options": func(c *corev1.Container) {
			c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c26,c0"}
		},
		"not privileged, aloud": func(c *corev1.Container) { c.SecurityContext.Privileged = new(false) },
		"a seccomp profile": func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("theirs.json")}
		},
		"a default said aloud": func(c *corev1.Container) { c.VolumeMounts[0].MountPropagation = &none },
	} {
		t.Run(name, func(t *testing.T) {
			p := changedInit(t, change)
			result := inject(t, newInjector(nil), p)
			require.Equal(t, pod.AlreadyInjected, result.Outcome)
			require.Equal(t, p, result.Pod)
			require.NotEmpty(t, result.Additions, "the operator may ask why the API server asked again")
		})
	}
}

// The pod was changed elsewhere, or the call isn't the second one.
func TestNothingIsAddedToAnInitContainerOfOurs(t *testing.T) {
	first := inject(t, newInjector(nil), asking(running("a", "x")))
	require.Empty(t, first.Additions)
	require.Empty(t, inject(t, newInjector(nil), first.Pod).Additions)
	repaired := inject(t, newInjector(nil), changedInit(t, func(c *corev1.Container) { c.Image = "evil" }))
	require.Empty(t, repaired.Additions)
}

func TestAdditionsAreNamedOnceByTheirFields(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	p := inject(t, injector, withTools(asking(running("a", "x")), "ni")).Pod
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		c.Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}}
		mountedAt("/vault/secrets")(c)
	}
	require.Equal(t, []string{"env", "volumeMounts"}, inject(t, injector, p).Additions)
}

// What is repaired takes nothing along that isn't dangerous.
func TestARepairLeavesTheRestAlone(t *testing.T) {
	p := changedInit(t, func(c *corev1.Container) {
		c.Image, c.Args = "registry.example.test/copier:another-release", nil
		c.Env = []corev1.EnvVar{{Name: "CLUSTER", Value: "theirs"}}
		mountedAt("/vault/secrets")(c)
		mountedAt("/ko-app")(c)
	})
	c := inject(t, newInjector(nil), p).Pod.Spec.InitContainers[0]
	require.Equal(t, copierImage, c.Image)
	require.Equal(t, []string{pod.EntrypointPath}, c.Args)
	require.Equal(t, []corev1.EnvVar{{Name: "CLUSTER", Value: "theirs"}}, c.Env)
	require.Equal(t, []corev1.VolumeMount{
		{Name: pod.VolumeName, MountPath: pod.MountPath},
		{Name: pod.VolumeName, MountPath: accountPath, ReadOnly: true},
		{Name: "theirs", MountPath: "/vault/secrets"},
	}, c.VolumeMounts)
}
