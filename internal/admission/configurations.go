// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	mwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/mutatingwebhookconfiguration"
	vwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/validatingwebhookconfiguration"
	"knative.dev/pkg/controller"
)

// Webhooks names webhook configurations.
type Webhooks struct{ Mutating, Validating []string }

// Configurations are the webhook configurations by which API servers call the injector.
type Configurations struct {
	names      Webhooks
	mutating   admissionlisters.MutatingWebhookConfigurationLister
	validating admissionlisters.ValidatingWebhookConfigurationLister
	synced     func() bool

	// changed is the time of the latest change, in nanoseconds since 1970.
	changed atomic.Int64
}

// NewConfigurations returns the configurations of these names.
func NewConfigurations(ctx context.Context, names Webhooks) (*Configurations, error) {
	mutating, validating := mwcinformer.Get(ctx), vwcinformer.Get(ctx)
	c := &Configurations{
		names: names, mutating: mutating.Lister(), validating: validating.Lister(),
		synced: func() bool { return mutating.Informer().HasSynced() && validating.Informer().HasSynced() },
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		names    []string
	}{{mutating.Informer(), names.Mutating}, {validating.Informer(), names.Validating}} {
		for _, name := range watched.names {
			if _, err := watched.informer.AddEventHandler(cache.FilteringResourceEventHandler{
				FilterFunc: controller.FilterWithName(name),
				Handler:    controller.HandleAll(func(any) { c.changed.Store(time.Now().UnixNano()) }),
			}); err != nil {
				return nil, fmt.Errorf("watching webhook configuration %q: %w", name, err)
			}
		}
	}
	return c, nil
}

// Gone reports whether all configurations have been deleted, or under deletion, for at
// least that time. As soon as API servers know of it, none calls the injector.
func (c *Configurations) Gone(since time.Duration) bool {
	found, err := c.list()
	if err != nil || time.Since(time.Unix(0, c.changed.Load())) < since {
		return false
	}
	for _, configuration := range found {
		if !configuration.beingDeleted {
			return false
		}
	}
	return true
}

// errNotSynced is returned before the informers have synced.
var errNotSynced = errors.New("reading the webhook configurations: the informers haven't synced yet")

// A configuration is a webhook configuration of either kind.
type configuration struct {
	kind, name   string
	beingDeleted bool
	caBundles    [][]byte // of its webhooks that call the injector
}

// list returns the existing configurations.
func (c *Configurations) list() (found []configuration, err error) {
	if !c.synced() {
		return nil, errNotSynced
	}
	for _, name := range c.names.Mutating {
		got, failure := c.mutating.Get(name)
		if failure == nil {
			found = append(found, newConfiguration("MutatingWebhookConfiguration", got.ObjectMeta, got.Webhooks, mutatingClient))
		}
		err = errors.Join(err, unlessNotFound(failure))
	}
	for _, name := range c.names.Validating {
		got, failure := c.validating.Get(name)
		if failure == nil {
			found = append(found, newConfiguration("ValidatingWebhookConfiguration", got.ObjectMeta, got.Webhooks, validatingClient))
		}
		err = errors.Join(err, unlessNotFound(failure))
	}
	return found, err
}

func newConfiguration[Webhook any](kind string, meta metav1.ObjectMeta, webhooks []Webhook, of func(*Webhook) *admissionregistrationv1.WebhookClientConfig) configuration {
	c := configuration{kind: kind, name: meta.Name, beingDeleted: meta.DeletionTimestamp != nil}
	for _, client := range clientsOf(webhooks, of) {
		c.caBundles = append(c.caBundles, client.CABundle)
	}
	return c
}

func unlessNotFound(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("reading the webhook configurations: %w", err)
}

// HasCABundle reports whether API servers can call the webhooks of a configuration. No
// API server calls webhooks of an absent configuration.
func HasCABundle(configurations admissionlisters.MutatingWebhookConfigurationLister, name string) bool {
	configuration, err := configurations.Get(name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return !slices.ContainsFunc(clientsOf(configuration.Webhooks, mutatingClient), func(client *admissionregistrationv1.WebhookClientConfig) bool {
		return len(client.CABundle) == 0
	})
}
