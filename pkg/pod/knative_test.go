// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netcfg "knative.dev/networking/pkg/config"
	"knative.dev/pkg/logging"
	servingconfig "knative.dev/serving/pkg/apis/config"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/autoscaler/config/autoscalerconfig"
	"knative.dev/serving/pkg/deployment"
	"knative.dev/serving/pkg/observability"
	revisionconfig "knative.dev/serving/pkg/reconciler/revision/config"
	"knative.dev/serving/pkg/reconciler/revision/resources"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// knativePod is the pod of a Revision, made by Knative's own code.
func knativePod(t *testing.T, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	revision := &servingv1.Revision{
		ObjectMeta: metav1.ObjectMeta{
			Name: "hello-00001", Namespace: "tenant", UID: "1",
			Labels: map[string]string{serving.ServiceLabelKey: "hello", serving.ConfigurationLabelKey: "hello"},
		},
		Spec: servingv1.RevisionSpec{PodSpec: *spec.DeepCopy()},
	}
	for _, c := range spec.Containers {
		revision.Status.ContainerStatuses = append(revision.Status.ContainerStatuses, servingv1.ContainerStatus{Name: c.Name, ImageDigest: c.Image})
	}
	defaults, err := servingconfig.NewDefaultsConfigFromMap(nil)
	require.NoError(t, err)
	revision.SetDefaults(servingconfig.ToContext(t.Context(), &servingconfig.Config{Defaults: defaults, Features: &servingconfig.Features{}}))
	made, err := resources.MakeDeployment(revision, &revisionconfig.Config{
		Config: &servingconfig.Config{
			Autoscaler: &autoscalerconfig.Config{InitialScale: 1}, Defaults: defaults, Features: &servingconfig.Features{},
		},
		Deployment:    &deployment.Config{QueueSidecarImage: "queue-proxy", ProgressDeadline: deployment.ProgressDeadlineDefault},
		Logging:       &logging.Config{},
		Network:       &netcfg.Config{},
		Observability: observability.DefaultConfig(),
	})
	require.NoError(t, err)
	return &corev1.Pod{ObjectMeta: made.Spec.Template.ObjectMeta, Spec: made.Spec.Template.Spec}
}

func TestARevisionsPod(t *testing.T) {
	const digest = "registry.example.test/hello@sha256:3333333333333333333333333333333333333333333333333333333333333333"
	before := knativePod(t, corev1.PodSpec{Containers: []corev1.Container{
		{Name: "user-container", Image: digest, Ports: []corev1.ContainerPort{{ContainerPort: 8080}}},
	}})
	known := images{digest: image([]string{"/ko-app/hello"}, nil)}

	result := inject(t, newInjector(known), before)
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, []string{"user-container"}, result.Wrapped)
	require.Equal(t, []string{"/ko-app/hello"}, behindDashes(t, result.Pod.Spec.Containers[0].Args))
	require.Equal(t, before.Spec.Containers[0].Lifecycle, result.Pod.Spec.Containers[0].Lifecycle)
	require.Equal(t, before.Spec.Containers[1], result.Pod.Spec.Containers[1], "queue-proxy is Knative's")
	requireGolden(t, "revision", result.Pod)
}
