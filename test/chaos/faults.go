// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/serve"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A fault is something that fails.
type fault struct {
	name, what string
	// refusals of pods that must be wrapped are due, because no injector can be asked.
	refusals bool
	// unwrapped pods are due, because nothing says any more that they must be wrapped.
	unwrapped bool
	// everybody notices, because it is the cluster that fails.
	everybody bool
	// watch is how long it has to be watched at least.
	watch time.Duration
	// inject lets it happen. If it doesn't heal by itself, heal ends it, also if inject fails.
	inject func(context.Context, *environment) (heal func(context.Context) error, err error)
}

// faults are all, in the order in which they happen. The last one installs the product anew.
var faults = []fault{
	{name: "none", what: "nothing fails"},
	{name: "injectors-killed", what: "all injectors are killed at once", refusals: true, inject: killInjectors},
	{name: "injectors-one-by-one", what: "one injector is killed after the other", inject: killInjectorsInTurn},
	{name: "certificates-deleted", what: "the Secret of the certificates is deleted", watch: serve.Overlap + 15*time.Second, inject: deleteCertificates},
	{name: "ca-bundles-deleted", what: "the CA bundles are removed from all webhook configurations", refusals: true, inject: removeCABundles},
	{name: "foreign-entry", what: "somebody adds an entry to our webhook configuration, whose server doesn't exist", inject: addForeignEntry},
	{name: "webhooks-deleted", what: "all webhook configurations are deleted, and later created anew without CA bundles", refusals: true, unwrapped: true, inject: deleteWebhooks},
	{name: "log-service-killed", what: "the log service is killed", inject: killLogService},
	{name: "log-service-gone", what: "the log service is scaled to zero, and later to one", inject: removeLogService},
	{name: "registry-stalled", what: "the image registry doesn't answer", everybody: true, inject: stallComponent("registry")},
	{name: "kubelet-killed", what: "the kubelet is killed, and later started", everybody: true, inject: killComponent("kubelet")},
	{name: "containerd-killed", what: "containerd is killed, and later started", everybody: true, inject: killComponent("containerd")},
	{name: "etcd-stalled", what: "etcd is stopped by SIGSTOP, and goes on later", everybody: true, inject: stallComponent("etcd")},
	{name: "etcd-killed", what: "etcd is killed, and later started", everybody: true, inject: killComponent("etcd")},
	{name: "api-server-killed", what: "the API server is killed, and later started", everybody: true, inject: killComponent("kube-apiserver")},
	{name: "namespace-deleted", what: "the injector's namespace is deleted, and the product installed anew", refusals: true, unwrapped: true, inject: deleteNamespace},
}

// The programs of our containers, as ko names them.
const (
	injectorProgram   = "/ko-app/injector"
	logServiceProgram = "/ko-app/logs"
	logSelector       = "app.kubernetes.io/name=" + framework.LogService
)

type healer = func(context.Context) error

func killInjectors(ctx context.Context, e *environment) (healer, error) {
	pods, err := podsOf(ctx, e.cluster, framework.SystemNamespace, framework.InjectorSelector)
	if err != nil {
		return nil, err
	}
	return nil, killContainers(pods, injectorProgram)
}

// killInjectorsInTurn kills the next one when all are ready.
func killInjectorsInTurn(ctx context.Context, e *environment) (healer, error) {
	pods, err := podsOf(ctx, e.cluster, framework.SystemNamespace, framework.InjectorSelector)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if err := e.cluster.WaitForInjector(ctx); err != nil {
			return nil, err
		}
		if err := killContainers(pods[i:i+1], injectorProgram); err != nil {
			return nil, err
		}
		// The kubelet sees that it has ended.
		before := restarts(&pods[i])
		err := framework.Eventually(ctx, time.Minute, "the injector to be restarted", func(ctx context.Context) error {
			p, err := e.cluster.Kube.CoreV1().Pods(pods[i].Namespace).Get(ctx, pods[i].Name, metav1.GetOptions{})
			if err == nil && restarts(p) == before {
				return errors.New("it isn't")
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func restarts(p *corev1.Pod) (count int32) {
	for _, s := range p.Status.ContainerStatuses {
		count += s.RestartCount
	}
	return count
}

func deleteCertificates(ctx context.Context, e *environment) (healer, error) {
	err := e.cluster.Kube.CoreV1().Secrets(framework.SystemNamespace).Delete(ctx, "entrypointer-webhook-certs", metav1.DeleteOptions{})
	if err != nil {
		return nil, fmt.Errorf("deleting the certificates: %w", err)
	}
	return nil, nil
}

var ours = metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=entrypointer"}

// configurations are our webhook configurations.
type configurations struct {
	mutating   []admissionregistrationv1.MutatingWebhookConfiguration
	validating []admissionregistrationv1.ValidatingWebhookConfiguration
}

func readConfigurations(ctx context.Context, e *environment) (c configurations, err error) {
	api := e.cluster.Kube.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return c, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return c, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	return configurations{mutating.Items, validating.Items}, nil
}

// withoutBundles removes the CA bundles, and what else a manifest doesn't have.
func (c configurations) withoutBundles() {
	for i := range c.mutating {
		for j := range c.mutating[i].Webhooks {
			c.mutating[i].Webhooks[j].ClientConfig.CABundle = nil
		}
	}
	for i := range c.validating {
		for j := range c.validating[i].Webhooks {
			c.validating[i].Webhooks[j].ClientConfig.CABundle = nil
		}
	}
}

func removeCABundles(ctx context.Context, e *environment) (healer, error) {
	return nil, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := readConfigurations(ctx, e)
		if err != nil {
			return err
		}
		c.withoutBundles()
		api := e.cluster.Kube.AdmissionregistrationV1()
		for i := range c.mutating {
			if _, err := api.MutatingWebhookConfigurations().Update(ctx, &c.mutating[i], metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		for i := range c.validating {
			if _, err := api.ValidatingWebhookConfigurations().Update(ctx, &c.validating[i], metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// foreignEntry is the name of somebody else's webhook.
const foreignEntry = "foreign.example.test"

// addForeignEntry adds an entry that API servers ignore if it fails, so that all refusals
// are ours.
func addForeignEntry(ctx context.Context, e *environment) (healer, error) {
	change := func(ctx context.Context, change func([]admissionregistrationv1.MutatingWebhook) []admissionregistrationv1.MutatingWebhook) error {
		api := e.cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			c, err := api.Get(ctx, framework.PodWebhook, metav1.GetOptions{})
			if err != nil {
				return err
			}
			c.Webhooks = change(c.Webhooks)
			_, err = api.Update(ctx, c, metav1.UpdateOptions{})
			return err
		})
	}
	err := change(ctx, func(all []admissionregistrationv1.MutatingWebhook) []admissionregistrationv1.MutatingWebhook {
		entry := *all[0].DeepCopy()
		entry.Name = foreignEntry
		entry.FailurePolicy = new(admissionregistrationv1.Ignore)
		entry.ClientConfig.CABundle = nil
		entry.ClientConfig.Service.Namespace, entry.ClientConfig.Service.Name = e.optedInSpace, "nowhere"
		return append(all, entry)
	})
	return func(ctx context.Context) error {
		return change(ctx, func(all []admissionregistrationv1.MutatingWebhook) (rest []admissionregistrationv1.MutatingWebhook) {
			for _, w := range all {
				if w.Name != foreignEntry {
					rest = append(rest, w)
				}
			}
			return rest
		})
	}, err
}

func deleteWebhooks(ctx context.Context, e *environment) (healer, error) {
	saved, err := readConfigurations(ctx, e)
	if err != nil {
		return nil, err
	}
	saved.withoutBundles()
	api := e.cluster.Kube.AdmissionregistrationV1()
	heal := func(ctx context.Context) error {
		var errs []error
		for _, c := range saved.mutating {
			c.ObjectMeta = metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}
			_, err := api.MutatingWebhookConfigurations().Create(ctx, &c, metav1.CreateOptions{})
			errs = append(errs, err)
		}
		for _, c := range saved.validating {
			c.ObjectMeta = metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}
			_, err := api.ValidatingWebhookConfigurations().Create(ctx, &c, metav1.CreateOptions{})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return heal, errors.Join(
		api.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours),
		api.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours),
	)
}

func killLogService(ctx context.Context, e *environment) (healer, error) {
	pods, err := podsOf(ctx, e.cluster, endpoint.Namespace, logSelector)
	if err != nil {
		return nil, err
	}
	return nil, killContainers(pods, logServiceProgram)
}

func removeLogService(ctx context.Context, e *environment) (healer, error) {
	return func(ctx context.Context) error {
		return e.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 1)
	}, e.cluster.Scale(ctx, endpoint.Namespace, framework.LogService, 0)
}

func deleteNamespace(ctx context.Context, e *environment) (healer, error) {
	namespaces := e.cluster.Kube.CoreV1().Namespaces()
	heal := func(ctx context.Context) error {
		err := framework.Eventually(ctx, 3*time.Minute, "the injector's namespace to be gone", func(ctx context.Context) error {
			_, err := namespaces.Get(ctx, framework.SystemNamespace, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				return errors.New("it is there")
			default:
				return err
			}
		})
		if err != nil {
			return err
		}
		_, err = framework.Run(ctx, "hack/deploy.sh", "ko")
		return err
	}
	return heal, namespaces.Delete(ctx, framework.SystemNamespace, metav1.DeleteOptions{})
}
