// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificates restores the Secret with the webhook's certificates after a
// deletion. knative.dev/pkg's controller fills an existing Secret, and never creates one.
package certificates

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
)

// NewController returns the controller that creates the Secret.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	secrets := secretinformer.Get(ctx)
	key := types.NamespacedName{Namespace: system.Namespace(), Name: webhook.GetOptions(ctx).SecretName}
	k := &keeper{
		client: kubeclient.Get(ctx), secrets: secrets.Lister(), key: key,
		LeaderAwareFuncs: reconciler.LeaderAwareFuncs{
			PromoteFunc: func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
				enqueue(bucket, key)
				return nil
			},
		},
	}
	logger := logging.FromContext(ctx).Named("certificates")
	impl := controller.NewContext(ctx, k, controller.ControllerOptions{WorkQueueName: "certificates", Logger: logger})
	if _, err := secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: controller.FilterWithNameAndNamespace(key.Namespace, key.Name), Handler: controller.HandleAll(impl.Enqueue),
	}); err != nil {
		logger.Fatalw("Failed to watch the webhook's Secret", zap.Error(err))
	}
	return impl
}

type keeper struct {
	reconciler.LeaderAwareFuncs

	client  kubernetes.Interface
	secrets corelisters.SecretLister
	key     types.NamespacedName
}

// Reconcile implements controller.Reconciler. Server-side apply has the name in its URL,
// so that RBAC can confine even the creation, and leaves a Secret intact that another
// client created meanwhile.
func (k *keeper) Reconcile(ctx context.Context, key string) error {
	if !k.IsLeaderFor(k.key) {
		return controller.NewSkipKey(key)
	}
	if _, err := k.secrets.Secrets(k.key.Namespace).Get(k.key.Name); !apierrors.IsNotFound(err) {
		return err
	}
	empty, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": k.key.Name, "labels": map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
	})
	if err != nil {
		return fmt.Errorf("encoding Secret %q: %w", k.key.Name, err)
	}
	_, err = k.client.CoreV1().Secrets(k.key.Namespace).Patch(ctx, k.key.Name, types.ApplyPatchType, empty,
		metav1.PatchOptions{FieldManager: "entrypointer", Force: new(true)})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("creating deleted Secret %q again: %w", k.key, err)
	}
	logging.FromContext(ctx).Infof("Created deleted Secret %q again", k.key)
	return nil
}
