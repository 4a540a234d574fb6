// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// StepPod returns a pod that looks like that of a TaskRun with one step, "step-only".
func StepPod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "step", Labels: map[string]string{"tekton.dev/taskRun": "any"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "step-only", Image: image, Command: []string{"true"}}}},
	}
}

// InstallOutage installs config/outage, and returns when pods of TaskRuns in a namespace that opted in
// may wait, and when the injector has said how to wrap plain ones.
func (c *Cluster) InstallOutage(ctx context.Context, namespace, image string) error {
	if _, err := Run(ctx, "ko", "apply", "-f", "config/outage"); err != nil {
		return err
	}
	err := Eventually(ctx, time.Minute, "pods of TaskRuns to be marked", func(ctx context.Context) error {
		made, err := c.Kube.CoreV1().Pods(namespace).Create(ctx, StepPod(image), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && made.Annotations[pod.MayWaitAnnotation] == "" {
			err = fmt.Errorf("one has the annotations %v", made.Annotations)
		}
		return err
	})
	if err != nil {
		return err
	}
	return Eventually(ctx, time.Minute, "the injector to say how to wrap plain pods", func(ctx context.Context) error {
		says, err := c.Kube.CoreV1().Namespaces().Get(ctx, SystemNamespace, metav1.GetOptions{})
		if err == nil && says.Annotations[config.OutageAnnotation] == "" {
			err = fmt.Errorf("it says %v", says.Annotations)
		}
		return err
	})
}

// RemoveOutage removes config/outage, if it is installed.
func RemoveOutage(ctx context.Context) error {
	_, err := Run(ctx, "ko", "delete", "--ignore-not-found", "-f", "config/outage")
	return err
}
