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

// OptsIn reports whether pods of a namespace are wrapped. The cluster's own namespaces
// and the injector's can't opt in.
func OptsIn(ns *corev1.Namespace, injectors string) bool {
	scope, err := pod.NamespaceScope(ns.Annotations)
	return err == nil && scope != pod.NoPods && ns.Name != metav1.NamespaceSystem && ns.Name != injectors
}
