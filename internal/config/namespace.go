// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// DeliveryIn returns the delivery for the pods of a namespace: the namespace's, or else
// the operator's. An unknown value on a namespace is ignored: it was refused when it was
// written, or is another release's.
func (c *Config) DeliveryIn(ns *corev1.Namespace) pod.Delivery {
	if asked, err := pod.NamespaceDelivery(ns.Annotations); err == nil && asked != "" {
		return asked
	}
	return c.Policy.Delivery
}

// Injector returns an injector for the pods of a namespace, under this configuration. Its
// images, its claim, its Lookup and the log service are for the caller to set.
func (c *Config) Injector(ns *corev1.Namespace) *pod.Injector {
	scope, err := pod.NamespaceScope(ns.Annotations)
	policy := c.Policy
	policy.Delivery = c.DeliveryIn(ns)
	return &pod.Injector{
		Version:        c.StatusVersion(),
		AllPods:        err == nil && scope == pod.AllPods,
		Policy:         policy,
		Tools:          c.Tools,
		ToolRegistries: c.Lookup.Allowed,
		Defaults:       []pod.Defaults{pod.NamespaceDefaults(ns.Name, ns.Annotations), c.Defaults},
	}
}

// OptsIn reports whether pods of a namespace are wrapped. The cluster's own namespaces
// and the injector's can't opt in.
func OptsIn(ns *corev1.Namespace, injectors string) bool {
	scope, err := pod.NamespaceScope(ns.Annotations)
	return err == nil && scope != pod.NoPods && ns.Name != metav1.NamespaceSystem && ns.Name != injectors
}
