// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// ours labels the namespaces of tests, so that those of an aborted run can be
// found: kubectl delete namespace -l e2e.entrypointer.dev/test
const ours = "e2e.entrypointer.dev/test"

// optedInNamespace makes a namespace as somebody would who wants pods wrapped.
func optedInNamespace(t *testing.T, labels ...string) string {
	t.Helper()
	return newNamespace(t, map[string]string{pod.InjectAnnotation: "true"}, labels...).Name
}

// plainNamespace makes a namespace as somebody would who never heard of us.
func plainNamespace(t *testing.T, labels ...string) string {
	t.Helper()
	return newNamespace(t, nil, labels...).Name
}

// newNamespace makes a namespace that goes when the test ends, and returns what the
// API server made of it. Labels are keys and values in turn.
func newNamespace(t *testing.T, annotations map[string]string, labels ...string) *corev1.Namespace {
	t.Helper()
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		Annotations:  annotations,
		Labels:       map[string]string{ours: "true"},
	}}
	for i := 0; i+1 < len(labels); i += 2 {
		want.Labels[labels[i]] = labels[i+1]
	}
	ns, err := cluster.Kube.CoreV1().Namespaces().Create(t.Context(), want, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if t.Failed() {
			dump(ctx, t, ns)
		}
		if err := cluster.Kube.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting namespace %q: %v", ns.Name, err)
		}
	})
	eventually(t, time.Minute, "the service account of namespace "+ns.Name, func() error {
		_, err := cluster.Kube.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	if annotations[pod.InjectAnnotation] == "true" && ns.Labels[pod.InjectAnnotation] != "true" {
		// The webhook that sets the label has 2 s, and its failure is ignored.
		waitForLabel(t, ns.Name, true)
		waitUntilSelected(t, ns.Name, true)
	}
	return ns
}

// annotate sets the annotation that opts in, or removes it: null does.
func annotate(ctx context.Context, namespace, value string) (*corev1.Namespace, error) {
	return annotateKey(ctx, namespace, pod.InjectAnnotation, value)
}

// annotateKey sets any annotation; the value is JSON.
func annotateKey(ctx context.Context, namespace, key, value string) (*corev1.Namespace, error) {
	patch := []byte(`{"metadata":{"annotations":{"` + key + `":` + value + `}}}`)
	return cluster.Kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
}
