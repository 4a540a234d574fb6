// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// userImage is an image as Knative hands it on: by digest.
func userImage(app string) string {
	return "registry.example.test/" + app + "@sha256:" + strings.Repeat("3", 64)
}

var revisionImages = images{
	userImage("app"):    image([]string{"/ko-app/app"}, nil),
	userImage("server"): image([]string{"/docker-entrypoint.sh"}, []string{"serve", "--on=$PORT"}),
	userImage("worker"): image(nil, []string{"python", "-m", "worker"}),
}

// servingContainer is the container that gets the requests.
func servingContainer(name, app string, change ...func(*corev1.Container)) corev1.Container {
	return changed(corev1.Container{Name: name, Image: userImage(app), Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}, change)
}

// sidecarContainer is a container that gets no requests.
func sidecarContainer(name, app string, change ...func(*corev1.Container)) corev1.Container {
	return changed(corev1.Container{Name: name, Image: userImage(app)}, change)
}

func changed(c corev1.Container, change []func(*corev1.Container)) corev1.Container {
	for _, apply := range change {
		apply(&c)
	}
	return c
}

func limits(list map[corev1.ResourceName]string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.Resources.Limits = corev1.ResourceList{}
		for name, quantity := range list {
			c.Resources.Limits[name] = resource.MustParse(quantity)
		}
		c.Resources.Requests = c.Resources.Limits.DeepCopy()
	}
}

func probes(c *corev1.Container) {
	http := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: http}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: http, PeriodSeconds: 5}
	c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/ready"}}}}
}

func mounted(name, path string) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
	}
}

func restricted(c *corev1.Container) {
	yes, no, user := true, false, int64(1000)
	c.SecurityContext = &corev1.SecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func withCommand(argv ...string) func(*corev1.Container) {
	return func(c *corev1.Container) { c.Command = argv }
}

func withArgs(args ...string) func(*corev1.Container) {
	return func(c *corev1.Container) { c.Args = args }
}

func of(containers ...corev1.Container) corev1.PodSpec { return corev1.PodSpec{Containers: containers} }

// revisions are what Knative Serving lets people write, a feature each, and
// the argv that each container would have had.
var revisions = map[string]struct {
	spec corev1.PodSpec
	argv map[string][]string
}{
	"the image alone": {
		of(servingContainer("user-container", "app")),
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"an image with CMD": {
		of(servingContainer("user-container", "server")),
		map[string][]string{"user-container": {"/docker-entrypoint.sh", "serve", "--on=$$PORT"}},
	},
	"args instead of CMD": {
		of(servingContainer("user-container", "server", withArgs("--on=$(PORT)"))),
		map[string][]string{"user-container": {"/docker-entrypoint.sh", "--on=$(PORT)"}},
	},
	"a command of its own": {
		of(servingContainer("user-container", "server", withCommand("/bin/sh", "-c"), withArgs("exec serve"))),
		map[string][]string{"user-container": {"/bin/sh", "-c", "exec serve"}},
	},
	"several containers": {
		of(servingContainer("front", "server"), sidecarContainer("worker", "worker"), sidecarContainer("cache", "app", withArgs("--size=1"))),
		map[string][]string{
			"front": {"/docker-entrypoint.sh", "serve", "--on=$$PORT"}, "worker": {"python", "-m", "worker"}, "cache": {"/ko-app/app", "--size=1"},
		},
	},
	"probes": {
		of(servingContainer("user-container", "app", probes), sidecarContainer("worker", "worker", probes)),
		map[string][]string{"user-container": {"/ko-app/app"}, "worker": {"python", "-m", "worker"}},
	},
	"volumes": {
		corev1.PodSpec{
			Containers: []corev1.Container{servingContainer("user-container", "app", mounted("config", "/config"), mounted("scratch", "/scratch"))},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			},
		},
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"security contexts": {
		corev1.PodSpec{
			Containers:      []corev1.Container{servingContainer("user-container", "app", restricted)},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(2000))},
		},
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"init containers": {
		corev1.PodSpec{
			Containers:     []corev1.Container{servingContainer("user-container", "app")},
			InitContainers: []corev1.Container{{Name: "migrate", Image: userImage("worker"), Args: []string{"migrate"}}},
		},
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"resources": {
		of(servingContainer("user-container", "app", limits(map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}))),
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"a GPU": {
		of(servingContainer("user-container", "app", limits(map[corev1.ResourceName]string{"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}))),
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
	"a scheduler's wishes": {
		corev1.PodSpec{
			Containers:         []corev1.Container{servingContainer("user-container", "app")},
			NodeSelector:       map[string]string{"disk": "ssd"},
			Tolerations:        []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			RuntimeClassName:   new("gvisor"),
			ServiceAccountName: "robot",
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "pull"}},
		},
		map[string][]string{"user-container": {"/ko-app/app"}},
	},
}

// Revisions of every kind, in pods made by Knative's own code.
func TestEveryKindOfRevision(t *testing.T) {
	for name, test := range revisions {
		t.Run(name, func(t *testing.T) {
			before := knativePod(t, test.spec)
			result := inject(t, newInjector(revisionImages), before)
			require.Equal(t, pod.Injected, result.Outcome)
			require.Len(t, result.Wrapped, len(test.spec.Containers))
			for i, c := range before.Spec.Containers {
				if c.Name == "queue-proxy" {
					require.Equal(t, c, result.Pod.Spec.Containers[i], "queue-proxy is Knative's")
					continue
				}
				got := result.Pod.Spec.Containers[i]
				require.Equal(t, []string{pod.EntrypointPath}, got.Command)
				require.Equal(t, test.argv[c.Name], behindDashes(t, got.Args))
			}
			requireOnlyOurs(t, encode(t, before), encode(t, result.Pod), result.Wrapped)
			requireSamePod(t, result.Pod, inject(t, newInjector(revisionImages), result.Pod).Pod, "twice isn't once")
		})
	}
}
