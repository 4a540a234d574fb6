// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package outage tells the policy of config/outage, by an annotation of the injector's
// namespace, how to wrap plain pods of TaskRuns while no injector responds: by which image, or
// not at all, because the operator has configured something that the policy doesn't know.
package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"

	"github.com/entrypointer/entrypointer/internal/config"
)

// NewController returns a constructor of the controller that writes the annotation.
func NewController(copierImage string, settings *config.Store) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		namespaces := namespaceinformer.Get(ctx)
		logger := logging.FromContext(ctx).Named("outage")
		key := types.NamespacedName{Name: system.Namespace()}
		w := &writer{
			client: kubeclient.Get(ctx), namespaces: namespaces.Lister(), key: key, image: copierImage, settings: settings,
			LeaderAwareFuncs: reconciler.LeaderAwareFuncs{
				PromoteFunc: func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
					enqueue(bucket, key)
					return nil
				},
			},
		}
		impl := controller.NewContext(ctx, w, controller.ControllerOptions{WorkQueueName: "outage", Logger: logger, Concurrency: 1})
		settings.Follow(func(*config.Config) { impl.EnqueueKey(key) })
		if _, err := namespaces.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: controller.FilterWithName(key.Name), Handler: controller.HandleAll(impl.Enqueue),
		}); err != nil {
			logger.Fatalw("Failed to watch the injector's namespace", zap.Error(err))
		}
		return impl
	}
}

// configuration holds the configuration in force.
type configuration interface{ Load() *config.Config }

// writer writes the annotation, in one replica at a time.
type writer struct {
	reconciler.LeaderAwareFuncs

	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	key        types.NamespacedName // of the injector's namespace
	image      string
	settings   configuration
}

// Reconcile implements controller.Reconciler.
func (w *writer) Reconcile(ctx context.Context, name string) error {
	if !w.IsLeaderFor(w.key) {
		return controller.NewSkipKey(name)
	}
	current := w.settings.Load()
	if current == nil {
		return nil // its arrival triggers the next call
	}
	namespace, err := w.namespaces.Get(w.key.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil:
		return nil // the injector is being uninstalled
	case err != nil:
		return fmt.Errorf("reading namespace %q: %w", w.key.Name, err)
	}
	changes := map[string]any{}
	for key := range namespace.Annotations { // also those of other releases
		if strings.HasPrefix(key, config.OutagePrefix) {
			changes[key] = nil
		}
	}
	if current.IsPlain() {
		changes[config.OutageAnnotation] = w.image
		if len(changes) == 1 && namespace.Annotations[config.OutageAnnotation] == w.image {
			return nil
		}
	}
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changes}})
	if err != nil {
		return err
	}
	if _, err := w.client.CoreV1().Namespaces().Patch(ctx, w.key.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("writing annotation %s of namespace %q: %w", config.OutageAnnotation, w.key.Name, err)
	}
	logging.FromContext(ctx).Infof("While no injector responds, the policy of config/outage wraps plain pods of TaskRuns: %v", current.IsPlain())
	return nil
}
