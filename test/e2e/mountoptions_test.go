// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
)

// withMountOptions returns a pod in which each mount of a volume has these options. Our
// vendored types don't know the field.
func withMountOptions(t *testing.T, p *corev1.Pod, volume string, options ...any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	require.NoError(t, err)
	containers, _, err := unstructured.NestedSlice(content, "spec", "containers")
	require.NoError(t, err)
	found := false
	for _, c := range containers {
		for _, m := range c.(map[string]any)["volumeMounts"].([]any) {
			if mount := m.(map[string]any); mount["name"] == volume {
				mount["bindMountOptions"], found = options, true
			}
		}
	}
	require.True(t, found, "a mount of %s", volume)
	require.NoError(t, unstructured.SetNestedSlice(content, containers, "spec", "containers"))
	return &unstructured.Unstructured{Object: content}
}

// As a webhook does that sets the options of all mounts, and then has the injector look
// again.
func TestAMountOfTheSupervisorThatAllowsNoExecutionIsRefused(t *testing.T) {
	t.Parallel()
	needsFeature(t, "VolumeBindMountOptions")
	client, err := dynamic.NewForConfig(cluster.Config)
	require.NoError(t, err)
	namespace := optedInNamespace(t)
	pods := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	create := func(p *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		p.SetAPIVersion("v1")
		p.SetKind("Pod")
		return pods.Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	asking := withData(askingPod("noexec", busybox(t, "main", "true")))

	admitted, err := create(withMountOptions(t, asking, "data", "noexec", "nosuid"))
	require.NoError(t, err, "another volume's option is no matter of ours")
	kept, _, err := unstructured.NestedSlice(admitted.Object, "spec", "containers")
	require.NoError(t, err)
	require.Contains(t, kept[0].(map[string]any)["volumeMounts"], map[string]any{
		"name": "data", "mountPath": "/data", "bindMountOptions": []any{"noexec", "nosuid"},
	}, "and stays")

	wrapped, err := wouldBecome(t, namespace, asking)
	require.NoError(t, err)
	wrapped.ResourceVersion, wrapped.UID = "", ""
	_, err = create(withMountOptions(t, wrapped, "entrypointer-bin", "nosuid", "nodev"))
	require.NoError(t, err, "the supervisor needs neither")
	_, err = create(withMountOptions(t, wrapped, "entrypointer-bin", "noexec"))
	require.ErrorContains(t, err, `container "main" mounts volume "entrypointer-bin" at "/entrypointer/bin" with bindMountOptions: [noexec]`)
}
