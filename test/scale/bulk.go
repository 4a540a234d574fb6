// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// writers is the number of objects that are written at once.
const writers = 16

// each calls f for the numbers from first to before the end, several at once.
func each(ctx context.Context, first, end int, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := first; i < end && ctx.Err() == nil; i++ {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// namespace returns a namespace as a team's has it: kubectl applied it, and it has a label
// of PodSecurity.
func namespace(name string, optedIn bool) *corev1.Namespace {
	applied := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{},"labels":{"pod-security.kubernetes.io/enforce":"baseline","team":"payments"},"name":%q}}`+"\n", name)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"pod-security.kubernetes.io/enforce": "baseline", "team": "payments"},
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: applied},
	}}
	if optedIn {
		ns.Annotations[pod.InjectAnnotation] = "true"
	}
	return ns
}

func (w *world) createNamespaces(ctx context.Context, prefix string, from, to int, optedIn bool) error {
	return each(ctx, from, to, func(ctx context.Context, i int) error {
		_, err := w.cluster.Kube.CoreV1().Namespaces().Create(ctx, namespace(fmt.Sprint(prefix, i), optedIn), metav1.CreateOptions{})
		return ignoreExisting(err)
	})
}

// taskRunPod is the pod of a TaskRun of two steps, as far as it matters here. With an
// image, the steps have no command, and the injector looks the image up.
func taskRunPod(name, image string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tekton.dev/taskRun": "run"}}}
	for i := range 2 {
		c := corev1.Container{Name: fmt.Sprint("step-", i), Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}, Args: []string{
			"-wait_file", fmt.Sprintf("/tekton/run/%d/out", i-1), "-post_file", fmt.Sprintf("/tekton/run/%d/out", i),
			"-termination_path", "/tekton/termination", "-step_metadata_dir", fmt.Sprintf("/tekton/run/%d/status", i),
			"-entrypoint", "sh", "--", "-c", "echo hello",
		}}
		if image != "" {
			c.Image, c.Command = image, nil
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// node returns a node as a kubelet registers it, with a list of images.
func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: "m5.xlarge",
	}}}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status = corev1.NodeStatus{
		Capacity: amounts, Allocatable: amounts,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.4.2", OSImage: "Debian GNU/Linux 13 (trixie)",
			OperatingSystem: "linux", Architecture: "amd64", KernelVersion: "6.12.0", MachineID: name, SystemUUID: name, BootID: name,
		},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Kubelet", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()})
	}
	for i := range 50 {
		image := fmt.Sprintf("registry.example/team/application-%d", i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image + ":v1", image + "@sha256:8b1a9953c4611296a827abf8c47804d7e1c5b7e2f1a3c4d5e6f708192a3b4c5d"}, SizeBytes: 1 << 26})
	}
	return n
}
