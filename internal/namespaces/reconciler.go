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
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	namespacereconciler "knative.dev/pkg/client/injection/kube/reconciler/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
)

// NewReconciler returns the controller that repairs labels: of namespaces that
// were annotated while no injector was there to see it, or whose label
// somebody changed.
func NewReconciler(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	r := &labeler{client: kubeclient.Get(ctx), rule: newRule(system.Namespace())}
	impl := namespacereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true}
	})
	// The informer's resync makes it look at every namespace again, in case an event was lost.
	if _, err := namespaceinformer.Get(ctx).Informer().AddEventHandler(controller.HandleAll(impl.Enqueue)); err != nil {
		logging.FromContext(ctx).Fatalw("Failed to watch namespaces", zap.Error(err))
	}
	return impl
}

type labeler struct {
	client kubernetes.Interface
	rule   rule
}

var _ namespacereconciler.Interface = (*labeler)(nil)

// ReconcileKind implements namespacereconciler.Interface.
func (l *labeler) ReconcileKind(ctx context.Context, ns *corev1.Namespace) reconciler.Event {
	want, mistake := l.rule.wants(ns)
	if !follows(ns, want) {
		if err := l.label(ctx, ns.Name, want); err != nil {
			return err
		}
		logging.FromContext(ctx).Infow("Repaired the label of a namespace",
			zap.String("namespace", ns.Name), zap.Bool("opted-in", want))
	}
	if mistake != nil {
		return reconciler.NewEvent(corev1.EventTypeWarning, "NotOptedIn", "%s", mistake.Error())
	}
	return nil
}

func (l *labeler) label(ctx context.Context, name string, want bool) error {
	var value any // null removes
	if want {
		value = optedIn
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
