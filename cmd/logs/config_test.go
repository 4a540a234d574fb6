// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
)

// shipped returns the objects of config/logs by kind and name.
func shipped(t *testing.T) map[string]unstructured.Unstructured {
	t.Helper()
	paths, err := filepath.Glob("../../config/logs/*.yaml")
	require.NoError(t, err)
	require.Len(t, paths, 9)
	objects := map[string]unstructured.Unstructured{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var o unstructured.Unstructured
			require.NoError(t, yaml.Unmarshal(document, &o.Object), path)
			objects[o.GetKind()+"/"+o.GetName()] = o
		}
	}
	return objects
}

func object[T any](t *testing.T, objects map[string]unstructured.Unstructured, name string) (as T) {
	t.Helper()
	require.Contains(t, objects, name)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[name].Object, &as, true))
	return as
}

func TestTheManifestsHaveTheNamesThatTheProgramsUse(t *testing.T) {
	t.Parallel()
	objects := shipped(t)
	for name, o := range objects {
		require.Equal(t, "entrypointer", o.GetLabels()["app.kubernetes.io/part-of"], name)
		if namespace := o.GetNamespace(); namespace != "" && name != "RoleBinding/entrypointer-logs" {
			require.Equal(t, endpoint.Namespace, namespace, name)
		}
	}
	require.Contains(t, objects, "Namespace/"+endpoint.Namespace)
	service := object[corev1.Service](t, objects, "Service/logs")
	require.Equal(t, service.Name+"."+service.Namespace+".svc", serverNames[0])
	require.Equal(t, int32(443), service.Spec.Ports[0].Port)

	deployment := object[appsv1.Deployment](t, objects, "Deployment/logs")
	require.Equal(t, int32(1), *deployment.Spec.Replicas)
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, deployment.Spec.Strategy.Type)
	require.Subset(t, deployment.Spec.Template.Labels, service.Spec.Selector)
	pod := deployment.Spec.Template.Spec
	require.Greater(t, float64(*pod.TerminationGracePeriodSeconds), shutdownTimeout.Seconds())
	require.Greater(t, float64(pod.Containers[0].LivenessProbe.InitialDelaySeconds), predecessorTimeout.Seconds(), "the service waits for its predecessor first")
	require.Greater(t, predecessorTimeout, shutdownTimeout)
	require.Equal(t, []string{"-directory", pod.Containers[0].VolumeMounts[0].MountPath}, pod.Containers[0].Args)
	claim := object[corev1.PersistentVolumeClaim](t, objects, "PersistentVolumeClaim/"+pod.Volumes[0].PersistentVolumeClaim.ClaimName)
	require.Nil(t, claim.Spec.StorageClassName, "the cluster's own")

	for _, rule := range object[rbacv1.Role](t, objects, "Role/logs").Rules {
		switch rule.Resources[0] {
		case "configmaps":
			want := endpoint.ConfigMap
			if rule.Verbs[0] == "get" {
				want = keeper.ConfigMap
			}
			require.Equal(t, []string{want}, rule.ResourceNames)
		case "secrets":
			if len(rule.ResourceNames) > 0 {
				require.Equal(t, []string{authority.Secret}, rule.ResourceNames)
			} else {
				require.Equal(t, []string{"create"}, rule.Verbs)
			}
		}
	}
	require.Equal(t, metav1.NamespaceSystem, object[rbacv1.RoleBinding](t, objects, "RoleBinding/entrypointer-logs").Namespace, "where the Role is")
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{apiServices.Group}, Resources: []string{apiServices.Resource}, ResourceNames: []string{apiServiceName}, Verbs: []string{"get", "patch"}}},
		object[rbacv1.ClusterRole](t, objects, "ClusterRole/entrypointer-logs-apiservice").Rules)
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{endpoint.Group}, Resources: []string{"logs", "logs/data", "logs/log"}, Verbs: []string{"get", "list"}}},
		object[rbacv1.ClusterRole](t, objects, "ClusterRole/entrypointer-log-asking").Rules)
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}},
		object[rbacv1.ClusterRole](t, objects, "ClusterRole/entrypointer-logs-namespaces").Rules)
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}},
		object[rbacv1.ClusterRole](t, objects, "ClusterRole/entrypointer-logs-events").Rules)
	require.Equal(t, "system:service-account-issuer-discovery", object[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding/entrypointer-logs-token-keys").RoleRef.Name)
	require.Contains(t, objects, "APIService/"+apiServiceName)
	spec := objects["APIService/"+apiServiceName].Object["spec"].(map[string]any)
	require.Equal(t, map[string]any{"namespace": endpoint.Namespace, "name": service.Name, "port": float64(8444)}, spec["service"])
	require.Equal(t, []any{endpoint.Group, endpoint.Version}, []any{spec["group"], spec["version"]})
	require.NotContains(t, spec, "caBundle", "applying the manifest again would remove the CA")
	require.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{endpoint.ConfigMap}, Verbs: []string{"get"}}},
		object[rbacv1.Role](t, objects, "Role/log-service-readers").Rules)
}
