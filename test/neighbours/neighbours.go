// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package neighbours has the sidecars of other projects that Jobs end by the option
// end-sidecars: their programs, and how these run without the services that they are for. The
// tests here run them as processes beside the supervisor, and the end-to-end tests in pods.
package neighbours

import (
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Neighbour is a sidecar of another project.
type Neighbour struct {
	Name    string // of its container
	Option  string // the value of end-sidecars
	Module  string // the directory here whose go.mod names its version, "" if it is installed
	Program string // the package of the program, or its path if it is installed
	Args    []string
	Env     map[string]string
	Files   map[string]string // by their names in its working directory
	Helper  string            // a program here that it starts by this name in its working directory, "" for none
	Ready   string            // the URL that succeeds once the work can use it
}

// All are the neighbours of modules here that end when they are asked to, each with its default
// ports.
func All() []Neighbour {
	return []Neighbour{{
		// Without the cloud, it starts, and refuses what is sent to a database.
		Name: "cloud-sql-proxy", Option: "cloud-sql-proxy",
		Module: "cloudsqlproxy", Program: "github.com/GoogleCloudPlatform/cloud-sql-proxy/v2",
		Args:  []string{"--quitquitquit", "--health-check", "--token=none", "--port=5432", "project:region:instance"},
		Ready: "http://127.0.0.1:9090/startup",
	}, istio()}
}

// Vault is the agent of an installed program "vault", which ends as those of All do. No module
// here requires Vault, because its licence, BUSL-1.1, isn't an open-source one. Without a server,
// the agent starts, and refuses what is sent to it.
func Vault(program string) Neighbour {
	return Neighbour{
		Name: "vault-agent", Option: "vault", Program: program,
		Args: []string{"agent", "-config=agent.hcl"},
		Files: map[string]string{"agent.hcl": `
vault {
  address = "http://127.0.0.1:1"
}
listener "tcp" {
  address     = "127.0.0.1:8200"
  tls_disable = true
  agent_api {
    enable_quit = true
  }
}
`},
		Ready: "http://127.0.0.1:8200/agent/v1/metrics",
	}
}

// istio is its agent with a stand-in for Envoy. Without Istio's control plane, it starts, and
// has no certificates. It is told of a configuration for Envoy, which the stand-in doesn't
// read: otherwise it writes one by a template that only its image has.
func istio() Neighbour {
	return Neighbour{
		Name: "istio-proxy", Option: "istio",
		Module: "pilotagent", Program: "istio.io/istio/pilot/cmd/pilot-agent",
		Args: []string{"proxy", "sidecar"},
		Env: map[string]string{
			"CLOUD_PLATFORM": "none", // asks no cloud what it is
			"PROXY_CONFIG": `
binaryPath: ./envoy
customConfigFile: ./envoy.json
discoveryAddress: 127.0.0.1:15010
controlPlaneAuthPolicy: NONE
`,
		},
		Helper: "envoy",
		Ready:  "http://127.0.0.1:15021/healthz/ready",
	}
}

// IstioWithoutEnvoy is Istio's agent beside a gRPC program that is its own proxy.
func IstioWithoutEnvoy() Neighbour {
	n := istio()
	n.Env["DISABLE_ENVOY"] = "true"
	n.Helper, n.Ready = "", "http://127.0.0.1:15020/healthz/ready"
	return n
}

// directory is the working directory in a pod.
const directory = "/neighbour"

// ConfigMap has the files, for a pod of the same namespace.
func (n *Neighbour) ConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Data: n.Files}
}

// Pod is a pod whose container "main" works beside the neighbour of an image, and ends it. The
// image of the helper is "" if there is none.
func (n *Neighbour) Pod(main corev1.Container, image, helper string) *corev1.Pod {
	main.Name = "main"
	work := corev1.VolumeMount{Name: "work", MountPath: directory}
	sidecar := corev1.Container{
		Name: n.Name, Image: image, Args: n.Args, WorkingDir: directory,
		VolumeMounts: []corev1.VolumeMount{work},
	}
	for _, name := range slices.Sorted(maps.Keys(n.Env)) {
		sidecar.Env = append(sidecar.Env, corev1.EnvVar{Name: name, Value: n.Env[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Files)) {
		sidecar.VolumeMounts = append(sidecar.VolumeMounts, corev1.VolumeMount{
			Name: "files", MountPath: path.Join(directory, name), SubPath: name,
		})
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Annotations: map[string]string{
			"entrypointer.dev/inject":        "true",
			"entrypointer.dev/containers":    "main",
			"entrypointer.dev/end-sidecars":  n.Option,
			"wait-for.entrypointer.dev/main": n.Ready,
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{main, sidecar},
			Volumes: []corev1.Volume{
				{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: n.Name},
				}}},
			},
		},
	}
	if n.Helper != "" {
		p.Spec.InitContainers = []corev1.Container{{
			Name: "helper", Image: helper, Args: []string{"install", path.Join(directory, n.Helper)},
			VolumeMounts: []corev1.VolumeMount{work},
		}}
	}
	return p
}
