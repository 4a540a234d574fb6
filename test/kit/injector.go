// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Where the product is installed.
const (
	SystemNamespace  = "entrypointer-system"
	Injector         = "injector"
	InjectorSelector = "app.kubernetes.io/name=injector"
	PodWebhook       = "pods.entrypointer.dev"
	NamespaceWebhook = "namespaces.entrypointer.dev"
	ConfigWebhook    = "config.entrypointer.dev"
)

// answersInARow is how often the webhook has to answer before it counts as
// being there: for a moment, a Service may lead to a replica that is gone.
const answersInARow = 5

// InjectorServes waits until the injector is rolled out and its webhook answers.
func (c *Cluster) InjectorServes(ctx context.Context) error {
	if err := c.DeploymentReady(ctx, SystemNamespace, Injector); err != nil {
		return err
	}
	row := 0
	return Eventually(ctx, time.Minute, "the injector to answer admissions", func(ctx context.Context) error {
		if err := c.injectorAnswers(ctx); err != nil {
			row = 0
			return err
		}
		if row++; row < answersInARow {
			return fmt.Errorf("it answered %d of %d times", row, answersInARow)
		}
		return nil
	})
}

// injectorAnswers asks what would happen to a namespace that opts in.
func (c *Cluster) injectorAnswers(ctx context.Context) error {
	webhooks, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, PodWebhook, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the webhook configuration: %w", err)
	}
	for _, webhook := range webhooks.Webhooks {
		if len(webhook.ClientConfig.CABundle) == 0 {
			return fmt.Errorf("webhook %q has no CA bundle yet", webhook.Name)
		}
	}
	probe := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "entrypointer-probe-",
		Annotations:  map[string]string{pod.InjectAnnotation: "true"},
	}}
	seen, err := c.Kube.CoreV1().Namespaces().Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("asking what would become of an annotated namespace: %w", err)
	}
	if seen.Labels[pod.InjectAnnotation] != "true" {
		return fmt.Errorf("an annotated namespace would get no label %q", pod.InjectAnnotation)
	}
	return nil
}

// InjectorPods are the injector's replicas.
func (c *Cluster) InjectorPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: InjectorSelector})
	if err != nil {
		return nil, fmt.Errorf("listing the injector's pods: %w", err)
	}
	return list.Items, nil
}

// ScaleInjector sets the number of replicas, and returns at once.
func (c *Cluster) ScaleInjector(ctx context.Context, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: Injector, Namespace: SystemNamespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if _, err := c.Kube.AppsV1().Deployments(SystemNamespace).UpdateScale(ctx, Injector, scale, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("scaling the injector to %d replicas: %w", replicas, err)
	}
	return nil
}

// KillInjector deletes the injector's pods without leaving them time to drain.
func (c *Cluster) KillInjector(ctx context.Context) error {
	var now int64
	err := c.Kube.CoreV1().Pods(SystemNamespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: InjectorSelector})
	if err != nil {
		return fmt.Errorf("killing the injector's pods: %w", err)
	}
	return nil
}
