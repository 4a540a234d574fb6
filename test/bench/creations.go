// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	plainNamespace = "bench-plain"
	benchNamespace = "bench"
	// creationsOfEach is how many pods are created, as a dry run, in either namespace.
	creationsOfEach = 500
)

// creations are how long the API server took to create a pod, sorted.
type creations struct{ plain, optedIn []time.Duration }

// compareCreations asks the API server to create the same pod in a namespace
// that opted in and in one that didn't, taking turns.
func compareCreations(ctx context.Context, cluster *framework.Cluster) (c creations, err error) {
	for name, annotations := range map[string]map[string]string{plainNamespace: nil, benchNamespace: {pod.InjectAnnotation: "true"}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		if _, err := cluster.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return c, fmt.Errorf("creating namespace %q: %w", name, err)
		}
	}
	create := func(namespace string) (time.Duration, error) {
		start := time.Now()
		_, err := cluster.Kube.CoreV1().Pods(namespace).Create(ctx, taskRunPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return time.Since(start), err
	}
	// The service account of a new namespace appears a moment later.
	for _, namespace := range []string{plainNamespace, benchNamespace} {
		err := framework.Eventually(ctx, time.Minute, "a pod to be admitted in "+namespace, func(context.Context) error {
			_, err := create(namespace)
			return err
		})
		if err != nil {
			return c, err
		}
	}
	for range creationsOfEach {
		for namespace, times := range map[string]*[]time.Duration{plainNamespace: &c.plain, benchNamespace: &c.optedIn} {
			took, err := create(namespace)
			if err != nil {
				return c, fmt.Errorf("creating a pod in %q: %w", namespace, err)
			}
			*times = append(*times, took)
		}
	}
	slices.Sort(c.plain)
	slices.Sort(c.optedIn)
	return c, nil
}

// taskRunPod is what Tekton creates for a TaskRun of five steps, as far as it matters here.
func taskRunPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "run-pod", Labels: map[string]string{"tekton.dev/taskRun": "run"}}}
	for i := range 5 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("step-", i), Image: "busybox", Command: []string{"/tekton/bin/entrypoint"},
			Args: []string{
				"-wait_file", fmt.Sprintf("/tekton/run/%d/out", i-1), "-post_file", fmt.Sprintf("/tekton/run/%d/out", i),
				"-termination_path", "/tekton/termination", "-step_metadata_dir", fmt.Sprintf("/tekton/run/%d/status", i),
				"-entrypoint", "sh", "--", "-c", "echo hello",
			},
		})
	}
	return p
}
