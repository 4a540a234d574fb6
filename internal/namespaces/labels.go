// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"knative.dev/pkg/logging"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// labels repairs the labels that the webhook missed: the label of a namespace that was
// annotated while no injector ran, or that was changed manually.
type labels struct{ client kubernetes.Interface }

func (l labels) follow(ctx context.Context, ns *corev1.Namespace, want pod.Scope) error {
	if follows(ns, want) {
		return nil
	}
	if err := l.set(ctx, ns.Name, want); err != nil {
		return err
	}
	logging.FromContext(ctx).Infow("Repaired the label of a namespace",
		zap.String("namespace", ns.Name), zap.String("label", string(want)))
	return nil
}

func (l labels) set(ctx context.Context, name string, want pod.Scope) error {
	var value any // null removes
	if want != pod.NoPods {
		value = want
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{labelKey: value}}})
	if err != nil {
		return fmt.Errorf("encoding the label of namespace %q: %w", name, err)
	}
	if _, err := l.client.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling namespace %q: %w", name, err)
	}
	return nil
}
