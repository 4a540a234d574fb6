// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Where the product is installed.
const (
	SystemNamespace  = "entrypointer-system"
	Injector         = "injector"
	InjectorSelector = "app.kubernetes.io/name=injector"
	WebhookService   = "entrypointer-webhook"
	PodWebhook       = "pods.entrypointer.dev"
	NamespaceWebhook = "namespaces.entrypointer.dev"
	ConfigWebhook    = "config.entrypointer.dev"
)

// answersInARow is how often the webhook has to answer before it counts as
// being there: for a moment, a Service may lead to a replica that is gone.
const answersInARow = 5

// WaitForInjector waits until the injector is rolled out and its webhook answers.
func (c *Cluster) WaitForInjector(ctx context.Context) error {
	if err := c.WaitForDeployment(ctx, SystemNamespace, Injector); err != nil {
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
		service := webhook.ClientConfig.Service
		ours := service != nil && service.Namespace == SystemNamespace && service.Name == WebhookService
		if ours && len(webhook.ClientConfig.CABundle) == 0 {
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
	return c.Scale(ctx, SystemNamespace, Injector, replicas)
}

// Scale sets the number of replicas of a Deployment, and returns at once.
func (c *Cluster) Scale(ctx context.Context, namespace, name string, replicas int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := c.Kube.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("scaling Deployment %q to %d replicas: %w", name, replicas, err)
	}
	return nil
}

// RemoveInjector ends the injector's pods and scales the injector to zero. What it returns scales it
// up again, and is there also if an error is.
func (c *Cluster) RemoveInjector(ctx context.Context) (bringBack func(context.Context) error, err error) {
	deployment, err := c.Kube.AppsV1().Deployments(SystemNamespace).Get(ctx, Injector, metav1.GetOptions{})
	if err != nil {
		return func(context.Context) error { return nil }, fmt.Errorf("reading how many injectors there are: %w", err)
	}
	bringBack = func(ctx context.Context) error { return c.ScaleInjector(ctx, *deployment.Spec.Replicas) }
	// In this order: pods that are stopped because of the scale drain for long, and the kubelet doesn't
	// hear of a shorter time any more.
	if err := c.KillInjector(ctx, 1); err != nil {
		return bringBack, err
	}
	return bringBack, c.ScaleInjector(ctx, 0)
}

// KillInjector deletes the injector's pods, and leaves them some seconds to
// stop, which is less than they need to drain. With none, they are gone for
// everybody but the kubelet, which may need a moment to end them.
func (c *Cluster) KillInjector(ctx context.Context, seconds int64) error {
	err := c.Kube.CoreV1().Pods(SystemNamespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &seconds}, metav1.ListOptions{LabelSelector: InjectorSelector})
	if err != nil {
		return fmt.Errorf("killing the injector's pods: %w", err)
	}
	return nil
}
