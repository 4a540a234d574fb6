// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package neighbours has the sidecars of other projects that Jobs end by the option
// end-sidecars: their programs, and how these run without the services that they are for. The
// tests here run them as processes beside the supervisor, and the end-to-end tests in pods.
package neighbours

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Neighbour is a sidecar of another project.
type Neighbour struct {
	Name    string // of its container
	Option  string // the value of end-sidecars
	Module  string // the directory here whose go.mod names its version
	Program string // the package of the program
	Args    []string
	Ready   string // the URL that succeeds once the work can use it
}

// All are the neighbours, each with its default ports.
func All() []Neighbour {
	return []Neighbour{{
		// Without the cloud, it starts, and refuses what is sent to a database.
		Name: "cloud-sql-proxy", Option: "cloud-sql-proxy",
		Module: "cloudsqlproxy", Program: "github.com/GoogleCloudPlatform/cloud-sql-proxy/v2",
		Args:  []string{"--quitquitquit", "--health-check", "--token=none", "--port=5432", "project:region:instance"},
		Ready: "http://127.0.0.1:9090/startup",
	}}
}

// Pod is a pod whose container "main" works beside the neighbour, and ends it.
func (n *Neighbour) Pod(main, sidecar corev1.Container) *corev1.Pod {
	main.Name, sidecar.Name = "main", n.Name
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Annotations: map[string]string{
			"entrypointer.dev/inject":        "true",
			"entrypointer.dev/containers":    "main",
			"entrypointer.dev/end-sidecars":  n.Option,
			"wait-for.entrypointer.dev/main": n.Ready,
		}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{main, sidecar}},
	}
}
