// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/entrypointer/entrypointer/test/framework"
)

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

// addForeignEntries adds an entry to a configuration of each sort that API servers ignore if
// it fails, so that all refusals are ours. A new replica has to become ready beside them.
func addForeignEntries(ctx context.Context, e *environment) (healer, error) {
	nowhere := func(client *admissionregistrationv1.WebhookClientConfig) {
		client.CABundle = nil
		client.Service.Namespace, client.Service.Name = e.spaces[asking], "nowhere"
	}
	api := e.cluster.Kube.AdmissionregistrationV1()
	change := func(ctx context.Context, add bool) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			mutating, err := api.MutatingWebhookConfigurations().Get(ctx, framework.PodWebhook, metav1.GetOptions{})
			if err != nil {
				return err
			}
			mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == foreignEntry })
			validating, err := api.ValidatingWebhookConfigurations().Get(ctx, framework.ConfigWebhook, metav1.GetOptions{})
			if err != nil {
				return err
			}
			validating.Webhooks = slices.DeleteFunc(validating.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == foreignEntry })
			if add {
				m, v := *mutating.Webhooks[0].DeepCopy(), *validating.Webhooks[0].DeepCopy()
				m.Name, v.Name = foreignEntry, foreignEntry
				m.FailurePolicy, v.FailurePolicy = new(admissionregistrationv1.Ignore), new(admissionregistrationv1.Ignore)
				nowhere(&m.ClientConfig)
				nowhere(&v.ClientConfig)
				mutating.Webhooks, validating.Webhooks = append(mutating.Webhooks, m), append(validating.Webhooks, v)
			}
			if _, err = api.MutatingWebhookConfigurations().Update(ctx, mutating, metav1.UpdateOptions{}); err != nil {
				return err
			}
			_, err = api.ValidatingWebhookConfigurations().Update(ctx, validating, metav1.UpdateOptions{})
			return err
		})
	}
	heal := func(ctx context.Context) error { return change(ctx, false) }
	if err := change(ctx, true); err != nil {
		return heal, fmt.Errorf("adding entries to the webhook configurations: %w", err)
	}
	return heal, killInjectorsOneByOne(ctx, e)
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
			errs = append(errs, unlessExists(err))
		}
		for _, c := range saved.validating {
			c.ObjectMeta = metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations}
			_, err := api.ValidatingWebhookConfigurations().Create(ctx, &c, metav1.CreateOptions{})
			errs = append(errs, unlessExists(err))
		}
		return errors.Join(errs...)
	}
	return heal, errors.Join(
		api.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours),
		api.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours),
	)
}

// unlessExists is nil if something else, such as an install, has created an object.
func unlessExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
