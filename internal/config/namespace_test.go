// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func annotated(name string, annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

func TestANamespacesDeliveryComesBeforeTheOperators(t *testing.T) {
	c := &config.Config{Policy: pod.Policy{Delivery: pod.DeliveryClaim}}
	require.Equal(t, pod.DeliveryClaim, c.DeliveryIn(annotated("tenant", nil)))
	require.Equal(t, pod.DeliveryAuto, c.DeliveryIn(annotated("tenant", map[string]string{pod.DeliveryAnnotation: "auto"})))
	require.Equal(t, pod.DeliveryClaim, c.DeliveryIn(annotated("tenant", map[string]string{pod.DeliveryAnnotation: "a later one's"})))
}

func TestNamespacesThatTheClusterAndTheInjectorNeedCanNotOptIn(t *testing.T) {
	in := map[string]string{pod.InjectAnnotation: "true"}
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		want      bool
	}{
		"a tenant's":         {annotated("tenant", in), true},
		"one that is silent": {annotated("tenant", nil), false},
		"one that is out":    {annotated("tenant", map[string]string{pod.InjectAnnotation: "false"}), false},
		"the cluster's":      {annotated("kube-system", in), false},
		"the injector's":     {annotated("injectors", in), false},
	} {
		require.Equal(t, test.want, config.OptsIn(test.namespace, "injectors"), name)
	}
}
