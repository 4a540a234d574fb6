// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// patience is what anything may take on a small machine that does other things as well.
const patience = 5 * time.Minute

// WaitForTaskRun waits until a TaskRun has succeeded or failed.
func (c *Cluster) WaitForTaskRun(ctx context.Context, namespace, name string) (run *pipelinev1.TaskRun, err error) {
	err = Eventually(ctx, patience, fmt.Sprintf("TaskRun %q in namespace %q to be done", name, namespace), func(ctx context.Context) (err error) {
		if run, err = c.Tekton.TektonV1().TaskRuns(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return undecided(run.Status.GetCondition(apis.ConditionSucceeded))
	})
	return run, err
}

// WaitForPipelineRun waits until a PipelineRun has succeeded or failed.
func (c *Cluster) WaitForPipelineRun(ctx context.Context, namespace, name string) (run *pipelinev1.PipelineRun, err error) {
	err = Eventually(ctx, patience, fmt.Sprintf("PipelineRun %q in namespace %q to be done", name, namespace), func(ctx context.Context) (err error) {
		if run, err = c.Tekton.TektonV1().PipelineRuns(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return undecided(run.Status.GetCondition(apis.ConditionSucceeded))
	})
	return run, err
}

// WaitForService waits until a Knative Service is READY.
func (c *Cluster) WaitForService(ctx context.Context, namespace, name string) (service *servingv1.Service, err error) {
	err = Eventually(ctx, patience, fmt.Sprintf("Knative Service %q in namespace %q to be ready", name, namespace), func(ctx context.Context) (err error) {
		if service, err = c.Serving.ServingV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if service.IsReady() && service.Status.URL != nil {
			return nil
		}
		return says(service.Status.GetCondition(apis.ConditionReady))
	})
	return service, err
}

// WaitForDeployment waits until all replicas of a Deployment are those that it
// asks for now, and are available.
func (c *Cluster) WaitForDeployment(ctx context.Context, namespace, name string) error {
	return Eventually(ctx, patience, fmt.Sprintf("Deployment %q in namespace %q to be rolled out", name, namespace), func(ctx context.Context) error {
		deployment, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return rolledOut(deployment)
	})
}

func rolledOut(d *appsv1.Deployment) error {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
		return fmt.Errorf("of %d replicas, %d are there, %d of them current, %d available: %s", want, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, complaints(s.Conditions))
	}
	return nil
}

func complaints(conditions []appsv1.DeploymentCondition) string {
	var all []string
	for _, c := range conditions {
		if (c.Status == corev1.ConditionTrue) == (c.Type == appsv1.DeploymentReplicaFailure) {
			all = append(all, c.Message)
		}
	}
	return strings.Join(all, "; ")
}

// PodOf returns the one pod that has these labels and isn't being deleted.
func (c *Cluster) PodOf(ctx context.Context, namespace, selector string) (*corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var found []*corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			found = append(found, &list.Items[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d pods in namespace %q have the labels %q, not one", len(found), namespace, selector)
	}
	return found[0], nil
}

// undecided is nil when the condition is true or false.
func undecided(condition *apis.Condition) error {
	if condition != nil && !condition.IsUnknown() {
		return nil
	}
	return says(condition)
}

func says(condition *apis.Condition) error {
	if condition == nil {
		return errors.New("it has no status yet")
	}
	return fmt.Errorf("%s is %s: %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
}
