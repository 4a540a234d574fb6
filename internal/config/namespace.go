// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// DeliveryIn is how the supervisor gets into the pods of a namespace: as the namespace
// says, or else the operator. A value that nobody knows was refused when it was
// written, or is another release's.
func (c *Config) DeliveryIn(ns *corev1.Namespace) pod.Delivery {
	if asked, err := pod.NamespaceDelivery(ns.Annotations); err == nil && asked != "" {
		return asked
	}
	return c.Policy.Delivery
}

// OptsIn reports whether pods of a namespace are wrapped. The cluster's own namespace and
// the injector's can't opt in.
func OptsIn(ns *corev1.Namespace, injectors string) bool {
	scope, err := pod.NamespaceScope(ns.Annotations)
	return err == nil && scope != pod.NoPods && ns.Name != metav1.NamespaceSystem && ns.Name != injectors
}
