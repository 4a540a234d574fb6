// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package uninstall removes the injector's webhook configurations when its namespace is
// being deleted.
//
// The namespace owns the configurations, so Kubernetes deletes them after the namespace.
// But the deletion of the namespace may never end, for instance if a finalizer of one of
// its objects is never removed. Long after the injector's pods are gone, failurePolicy
// Fail would then refuse every pod of the namespaces that opted in.
package uninstall

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"

	"github.com/entrypointer/entrypointer/internal/admission"
)

// NewController returns a constructor of the controller that removes the configurations.
// Every replica runs it, because the leader may end first.
func NewController(webhooks admission.Webhooks) func(context.Context, configmap.Watcher) *controller.Impl {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		namespaces := namespaceinformer.Get(ctx)
		r := &remover{client: kubeclient.Get(ctx), namespaces: namespaces.Lister(), own: system.Namespace(), webhooks: webhooks}
		logger := logging.FromContext(ctx).Named("uninstall")
		impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: "uninstall", Logger: logger})
		if _, err := namespaces.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: controller.FilterWithName(r.own), Handler: controller.HandleAll(impl.Enqueue),
		}); err != nil {
			logger.Fatalw("Failed to watch the injector's namespace", zap.Error(err))
		}
		return impl
	}
}

// remover is leader-aware only because knative.dev/pkg requires it of every reconciler.
type remover struct {
	reconciler.LeaderAwareFuncs

	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	own        string
	webhooks   admission.Webhooks
}

// Reconcile implements controller.Reconciler.
func (r *remover) Reconcile(ctx context.Context, _ string) error {
	namespace, err := r.namespaces.Get(r.own)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading namespace %q: %w", r.own, err)
	case err == nil && namespace.DeletionTimestamp == nil:
		return nil
	}
	api := r.client.AdmissionregistrationV1()
	return errors.Join(
		remove(ctx, "MutatingWebhookConfiguration", r.webhooks.Mutating, api.MutatingWebhookConfigurations().Delete),
		remove(ctx, "ValidatingWebhookConfiguration", r.webhooks.Validating, api.ValidatingWebhookConfigurations().Delete),
	)
}

func remove(ctx context.Context, kind string, names []string, del func(context.Context, string, metav1.DeleteOptions) error) error {
	var failed []error
	for _, name := range names {
		switch err := del(ctx, name, metav1.DeleteOptions{}); {
		case err == nil:
			logging.FromContext(ctx).Infof("Removed %s %q, because the injector's namespace is being deleted", kind, name)
		case !apierrors.IsNotFound(err):
			failed = append(failed, fmt.Errorf("removing %s %q, because the injector's namespace is being deleted: %w", kind, name, err))
		}
	}
	return errors.Join(failed...)
}
