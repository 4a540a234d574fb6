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
	k := &keeper{}
	return k.start(ctx, k)
}

// servedSecret is the Secret with the certificate that is served, for its reconcilers.
type servedSecret struct {
	reconciler.LeaderAwareFuncs

	client  kubernetes.Interface
	secrets corelisters.SecretLister
	key     types.NamespacedName
}

// start returns the controller that asks r about the served Secret when this one, or one of
// the others in its namespace, has changed.
func (s *servedSecret) start(ctx context.Context, r controller.Reconciler, others ...string) *controller.Impl {
	secrets := secretinformer.Get(ctx)
	s.client, s.secrets = kubeclient.Get(ctx), secrets.Lister()
	s.key = types.NamespacedName{Namespace: system.Namespace(), Name: webhook.GetOptions(ctx).SecretName}
	s.PromoteFunc = func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
		enqueue(bucket, s.key)
		return nil
	}
	logger := logging.FromContext(ctx).Named("certificates")
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: "certificates", Logger: logger})
	for _, name := range append(others, s.key.Name) {
		if _, err := secrets.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: controller.FilterWithNameAndNamespace(s.key.Namespace, name),
			Handler:    controller.HandleAll(func(any) { impl.EnqueueKey(s.key) }),
		}); err != nil {
			logger.Fatalw("Failed to watch Secret "+name, zap.Error(err))
		}
	}
	return impl
}

// apply creates the Secret, or changes it to have these data. Server-side apply has the name in
// its URL, so that RBAC can confine even the creation, and leaves what it doesn't name, such as
// the data of a Secret that another client created meanwhile. It reports whether the Secret is
// there: not while its namespace is being deleted.
func (s *servedSecret) apply(ctx context.Context, data map[string][]byte) (done bool, _ error) {
	fields := map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": s.key.Name, "labels": map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
	}
	if data != nil {
		fields["data"] = data
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return false, err
	}
	_, err = s.client.CoreV1().Secrets(s.key.Namespace).Patch(ctx, s.key.Name, types.ApplyPatchType, object,
		metav1.PatchOptions{FieldManager: "entrypointer", Force: new(true)})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil
	}
	return err == nil, err
}

type keeper struct{ servedSecret }

// Reconcile implements controller.Reconciler.
func (k *keeper) Reconcile(ctx context.Context, key string) error {
	if !k.IsLeaderFor(k.key) {
		return controller.NewSkipKey(key)
	}
	if _, err := k.secrets.Secrets(k.key.Namespace).Get(k.key.Name); !apierrors.IsNotFound(err) {
		return err
	}
	created, err := k.apply(ctx, nil)
	if err != nil {
		return fmt.Errorf("creating deleted Secret %q again: %w", k.key, err)
	}
	if created {
		logging.FromContext(ctx).Infof("Created deleted Secret %q again", k.key)
	}
	return nil
}
