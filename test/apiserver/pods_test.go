// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// chooser makes pods that Kubernetes mostly admits, one byte for each choice.
// When the bytes are used up, it chooses what is left out or plain.
type chooser struct {
	data []byte
	// tame pods are within what PodSecurity allows, or nearly.
	tame bool
}

func (c *chooser) below(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	chosen := int(c.data[0]) % n
	c.data = c.data[1:]
	return chosen
}

// rarely is true once in n times.
func (c *chooser) rarely(n int) bool { return c.below(n) == n-1 }

func one[T any](c *chooser, of ...T) T { return of[c.below(len(of))] }

// maybe is one of these, or nothing.
func maybe[T any](c *chooser, of ...T) *T {
	if chosen := c.below(len(of) + 2); chosen > 1 {
		return &of[chosen-2]
	}
	return nil
}

func (c *chooser) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "tenant"}}
	c.tame = c.rarely(2)
	switch c.below(4) {
	case 0:
		p.Labels = map[string]string{"tekton.dev/taskRun": "run"}
	case 1:
		p.Labels = map[string]string{"serving.knative.dev/revision": "hello-00001"}
	default:
		p.Annotations = map[string]string{pod.InjectAnnotation: "true"}
	}
	if c.rarely(6) {
		p.Annotations = withAnnotation(p.Annotations, "entrypointer.dev/mode", one(c, "exec", "supervise"))
	}
	if c.rarely(4) {
		p.Annotations = withAnnotation(p.Annotations, "entrypointer.dev/trace", one(c, "true", "false"))
	}
	p.Spec = corev1.PodSpec{
		RestartPolicy:         one(c, corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure),
		SecurityContext:       c.podSecurityContext(),
		HostNetwork:           !c.tame && c.rarely(16),
		HostPID:               !c.tame && c.rarely(16),
		HostIPC:               !c.tame && c.rarely(16),
		HostUsers:             one(c, nil, nil, nil, new(true), new(false)),
		ShareProcessNamespace: maybe(c, true, false),
		Volumes:               c.volumes(),
		NodeSelector:          one(c, nil, map[string]string{"kubernetes.io/os": "linux"}, map[string]string{"disk": "ssd"}),
	}
	if c.rarely(8) {
		p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
	}
	if c.rarely(6) {
		p.Spec.RuntimeClassName = new("sandbox")
		p.Spec.Overhead = c.amounts(corev1.ResourceCPU, corev1.ResourceMemory)
	}
	if c.rarely(5) {
		p.Spec.Resources = &corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi")},
		}
	}
	for i := range 1 + c.below(3) {
		name := one(c, "step-", "app-", "user-container-", "sidecar-") + strconv.Itoa(i)
		if c.rarely(12) {
			name = one(c, "queue-proxy", "istio-proxy", "linkerd-proxy", pod.InitContainerName)
		}
		p.Spec.Containers = append(p.Spec.Containers, c.container(name))
	}
	if last := len(p.Spec.Containers) - 1; last > 0 && c.rarely(4) {
		waiter, other := p.Spec.Containers[last].Name, p.Spec.Containers[0].Name
		p.Annotations = withAnnotation(p.Annotations, "depends-on.entrypointer.dev/"+waiter, other+one(c, ":started", ":ready", ":exited?"))
		p.Annotations["ready-when.entrypointer.dev/"+other] = "tcp://:8080"
		p.Spec.TerminationGracePeriodSeconds = one(c, nil, new(int64(0)), new(int64(1)), new(int64(90)))
		if c.rarely(2) {
			p.Annotations["stop-when.entrypointer.dev/"+other] = waiter + one(c, ":completed", ":exited?")
		}
	}
	if c.rarely(4) {
		for _, sharer := range p.Spec.Containers {
			p.Annotations = withAnnotation(p.Annotations, "shared-directory.entrypointer.dev/"+sharer.Name, one(c, "x", "x, y"))
		}
	}
	for i := range c.below(3) {
		made := c.container("init-" + strconv.Itoa(i))
		made.LivenessProbe, made.Lifecycle, made.RestartPolicy = nil, nil, maybe(c, corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, made)
	}
	return p
}

func (c *chooser) container(name string) corev1.Container {
	made := corev1.Container{
		Name: name, Image: "registry.example.test/app:1",
		Command:         one(c, nil, []string{"run"}, []string{"sh", "-c", "$(NAME)"}),
		Args:            one(c, nil, []string{"--"}, []string{"a", "$$"}),
		WorkingDir:      one(c, "", "/work"),
		Env:             one(c, nil, []corev1.EnvVar{{Name: "NAME", Value: "value"}}),
		ImagePullPolicy: one(c, "", corev1.PullAlways, corev1.PullIfNotPresent),
		TTY:             c.rarely(8),
		Stdin:           c.rarely(8),
		Resources:       c.resources(),
		SecurityContext: c.securityContext(),
	}
	for _, volume := range []string{"scratch", "config"} {
		if c.rarely(3) {
			mount := corev1.VolumeMount{Name: volume, ReadOnly: c.rarely(2), MountPath: one(c, "/", "/data/", "/entrypointer-", "relative/") + volume}
			if c.rarely(8) {
				mount.MountPath = one(c, pod.MountPath+"/"+volume, "entrypointer/bin/"+volume, pod.MountPath, "entrypointer")
			}
			made.VolumeMounts = append(made.VolumeMounts, mount)
		}
	}
	if c.rarely(8) {
		made.VolumeDevices = []corev1.VolumeDevice{{Name: "block", DevicePath: one(c, "/dev/a", "/dev/b", "/dev/c", "/dev/d", pod.MountPath, pod.EntrypointPath)}}
	}
	if c.rarely(4) {
		made.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: one[int32](c, 0, 0, 8080)}}
	}
	if c.rarely(4) {
		made.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Port: intstr.FromInt32(8080), Host: one(c, "", "", "example.test"),
		}}}
	}
	if c.rarely(4) {
		made.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"stop"}}}}
	}
	return made
}

func (c *chooser) resources() corev1.ResourceRequirements {
	all := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	switch c.below(5) {
	case 0:
		return corev1.ResourceRequirements{}
	case 1:
		return corev1.ResourceRequirements{Requests: c.amounts(all...)}
	case 2:
		limits := c.amounts(all...)
		return corev1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}
	case 3:
		limits := c.amounts(append(all, "nvidia.com/gpu")...)
		if _, ok := limits[corev1.ResourceMemory]; ok && c.rarely(3) {
			limits["hugepages-2Mi"] = resource.MustParse("2Mi")
		}
		return corev1.ResourceRequirements{Limits: limits}
	default:
		limits := c.amounts(all...)
		requests := corev1.ResourceList{}
		for name := range limits {
			if c.rarely(2) {
				requests[name] = resource.MustParse("1")
			}
		}
		return corev1.ResourceRequirements{Limits: limits, Requests: requests}
	}
}

// amounts are some of these, in amounts that differ.
func (c *chooser) amounts(names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		if c.below(3) == 0 {
			continue
		}
		list[name] = resource.MustParse(one(c, "1", "2", "3", "4"))
		if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			list[name] = resource.MustParse(one(c, "1Gi", "64Mi", "2Gi", "1500M"))
		}
		if name == corev1.ResourceCPU && c.rarely(3) {
			list[name] = resource.MustParse(one(c, "100m", "0", "1500m"))
		}
	}
	return list
}

// restricted is what PodSecurity's strictest level asks of a container.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func (c *chooser) securityContext() *corev1.SecurityContext {
	kind := c.below(8)
	if c.tame {
		kind %= 5
	}
	switch kind {
	case 0, 1, 2, 3:
		made := restricted()
		made.RunAsUser = maybe[int64](c, 1000, 65532)
		made.ReadOnlyRootFilesystem = maybe(c, true, false)
		return made
	case 4:
		return nil
	case 5:
		return &corev1.SecurityContext{Privileged: new(true)}
	default:
		made := &corev1.SecurityContext{
			RunAsUser:                maybe[int64](c, 0, 1000, 1<<30),
			RunAsGroup:               maybe[int64](c, 0, 1000),
			RunAsNonRoot:             maybe(c, true, false),
			AllowPrivilegeEscalation: maybe(c, true, false),
			ReadOnlyRootFilesystem:   maybe(c, true, false),
			SELinuxOptions:           maybe(c, corev1.SELinuxOptions{Level: "s0:c1,c2"}, corev1.SELinuxOptions{Type: "container_t"}, corev1.SELinuxOptions{Type: "spc_t", User: "u"}),
			SeccompProfile:           c.seccomp(),
			AppArmorProfile:          c.appArmor(),
			ProcMount:                one(c, nil, nil, nil, nil, new(corev1.DefaultProcMount), new(corev1.UnmaskedProcMount)),
		}
		if c.rarely(3) {
			made.Capabilities = &corev1.Capabilities{
				Add:  one(c, nil, []corev1.Capability{"NET_BIND_SERVICE"}, []corev1.Capability{"SYS_PTRACE"}, []corev1.Capability{"NET_RAW"}),
				Drop: one(c, nil, []corev1.Capability{"ALL"}),
			}
		}
		return made
	}
}

func (c *chooser) podSecurityContext() *corev1.PodSecurityContext {
	if c.tame || c.rarely(2) {
		return nil
	}
	return &corev1.PodSecurityContext{
		RunAsUser:          maybe[int64](c, 0, 1000, 1<<30),
		RunAsGroup:         maybe[int64](c, 0, 1000),
		RunAsNonRoot:       maybe(c, true, false),
		FSGroup:            maybe[int64](c, 0, 2000),
		SupplementalGroups: one(c, nil, []int64{3000}),
		SELinuxOptions:     maybe(c, corev1.SELinuxOptions{Level: "s0:c1,c2"}, corev1.SELinuxOptions{Type: "spc_t"}),
		SeccompProfile:     c.seccomp(),
		AppArmorProfile:    c.appArmor(),
		Sysctls:            one(c, nil, nil, []corev1.Sysctl{{Name: "net.ipv4.ip_local_port_range", Value: "1024 65535"}}, []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}),
	}
}

func (c *chooser) seccomp() *corev1.SeccompProfile {
	return maybe(c, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("profile.json")})
}

func (c *chooser) appArmor() *corev1.AppArmorProfile {
	return maybe(c, corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined})
}

func (c *chooser) volumes() []corev1.Volume {
	scratch := one(c,
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}},
	)
	if !c.tame && c.rarely(3) {
		scratch = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/scratch"}}
	}
	volumes := []corev1.Volume{
		{Name: "scratch", VolumeSource: scratch},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "block", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "block"}}},
	}
	if c.rarely(24) {
		volumes = append(volumes, corev1.Volume{Name: pod.VolumeName, VolumeSource: scratch})
	}
	return volumes
}

// limitRange is what the operator of the namespace demands, or nil.
func (c *chooser) limitRange() *corev1.LimitRange {
	if c.below(3) > 0 {
		return nil
	}
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	most := append(slices.Clone(names), "nvidia.com/gpu")
	made := &corev1.LimitRange{}
	for _, limitType := range []corev1.LimitType{corev1.LimitTypeContainer, corev1.LimitTypePod} {
		item := corev1.LimitRangeItem{Type: limitType}
		if c.rarely(3) {
			item.Min = c.amounts(names...)
		}
		if c.rarely(3) {
			item.Max = c.amounts(most...)
		}
		if c.rarely(3) {
			item.MaxLimitRequestRatio = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		}
		if limitType == corev1.LimitTypeContainer && c.rarely(2) {
			item.Default = c.amounts(most...)
		}
		made.Spec.Limits = append(made.Spec.Limits, item)
	}
	k8sv1.SetObjectDefaults_LimitRange(made)
	return made
}
