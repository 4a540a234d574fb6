// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
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

// Claims knows the claims that hold this version of the supervisor.
type Claims struct {
	images Images
	watch  watch
}

// New returns Claims that are empty until NewReconciler's controller is made.
func New() *Claims { return &Claims{} }

// Ready returns the name of the claim that pods of the namespace can mount now, or "". It
// makes no request.
func (c *Claims) Ready(namespace string) string {
	s := c.watch.current.Load()
	if s == nil {
		return ""
	}
	v, err := s.supervisorVolume(namespace)
	if err != nil || v == nil || v.DeletionTimestamp != nil {
		return ""
	}
	name, err := c.images.claimName(v.Spec.VolumeClaimTemplate)
	if err != nil {
		return ""
	}
	claim := s.claim(namespace, name)
	// A claim under deletion accepts no new pods, and a new claim of the same name is
	// empty.
	if claim == nil || claim.GetDeletionTimestamp() != nil || v.Status.filled(name, claim.GetUID()) == nil {
		return ""
	}
	return name
}

// Absent reports whether a check has found that config/claims isn't installed.
func (c *Claims) Absent() bool { return c.watch.absent.Load() }

// NewReconciler returns a constructor of the controller that creates and fills claims
// where the delivery is claim.
func (c *Claims) NewReconciler(images Images, settings *config.Store) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		logger := logging.FromContext(ctx)
		c.images = images
		restConfig := injection.GetConfig(ctx)
		volumes, err := dynamic.NewForConfig(restConfig)
		if err != nil {
			logger.Fatalw("Failed to make a client of SupervisorVolumes", zap.Error(err))
		}
		claims, err := metadata.NewForConfig(restConfig)
		if err != nil {
			logger.Fatalw("Failed to make a client of claims", zap.Error(err))
		}
		namespaces := namespaceinformer.Get(ctx)
		r := &filler{
			images: c.images, client: kubeclient.Get(ctx), volumes: volumes,
			config: settings, namespaces: namespaces.Lister(), own: system.Namespace(),
			seen: c.watch.current.Load, absent: c.Absent,
		}
		impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: "claims", Logger: logger})
		each := func(do func(types.NamespacedName)) error {
			all, err := r.namespaces.List(everything)
			for _, ns := range all {
				if r.concerns(ns) {
					do(keyOf(ns.Name))
				}
			}
			return err
		}
		r.PromoteFunc = func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
			return each(func(key types.NamespacedName) { enqueue(bucket, key) })
		}
		enqueueAll := func() {
			if err := each(impl.EnqueueKey); err != nil {
				logger.Errorw("Listing namespaces", zap.Error(err))
			}
		}
		c.watch.volumes, c.watch.metadata, c.watch.logger = volumes, claims, logger
		c.watch.changed = func(namespace string) {
			if namespace == "" {
				enqueueAll()
				return
			}
			impl.EnqueueKey(keyOf(namespace))
		}
		if _, err := namespaces.Informer().AddEventHandler(controller.HandleAll(func(object any) {
			if ns, ok := object.(*corev1.Namespace); ok && r.concerns(ns) {
				impl.EnqueueKey(keyOf(ns.Name))
			}
		})); err != nil {
			logger.Fatalw("Failed to watch namespaces", zap.Error(err))
		}
		settings.Follow(func(*config.Config) { enqueueAll() })
		go c.watch.run(ctx)
		return impl
	}
}
