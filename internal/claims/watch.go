// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/internal/optionalpart"
	"github.com/entrypointer/entrypointer/internal/version"
)

// lookPatience limits the time of a check, and of the first lists of a watch.
const lookPatience = 20 * time.Second

var claimResource = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// A watch follows the SupervisorVolumes and the reconciler's claims of all namespaces, while
// config/claims is installed.
type watch struct {
	volumes  dynamic.Interface
	metadata metadata.Interface
	logger   *zap.SugaredLogger
	// changed is called with the namespaces of changed objects.
	changed func(namespace string)
	current atomic.Pointer[seen]
	absent  atomic.Bool
}

// seen holds the informers. A claim's metadata shows whether the claim exists, and takes
// less memory than the whole claim.
type seen struct {
	volumes, claims cache.GenericLister
	stop            context.CancelFunc
}

// run checks until ctx is done.
func (w *watch) run(ctx context.Context) {
	w.look(ctx)
	optionalpart.Every(ctx, optionalpart.Interval, nil, w.look)
	w.stop()
}

// look starts the informers when the injector may watch, and stops them when it may no
// longer. If the API server doesn't respond, the state stays.
func (w *watch) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	one := metav1.ListOptions{Limit: 1}
	_, err := w.volumes.Resource(Resource).List(bounded, one)
	if err == nil {
		_, err = w.metadata.Resource(claimResource).List(bounded, one)
	}
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		if w.current.Load() != nil {
			w.logger.Infow("config/claims isn't installed any more. Pods whose delivery is claim get an init container. To have them mount claims, run: "+version.Applies(version.Own(), "claims"), zap.Error(err))
			w.stop()
		}
		if !w.absent.Swap(true) {
			w.changed("")
		}
	case err != nil:
		w.logger.Warnw("Failed to look for SupervisorVolumes", zap.Error(err))
	case w.current.Load() == nil:
		w.start(ctx)
	}
}

func (w *watch) stop() {
	if s := w.current.Swap(nil); s != nil {
		s.stop()
	}
}

// start returns when the informers have listed everything, or after lookPatience.
func (w *watch) start(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	volumes := dynamicinformer.NewDynamicSharedInformerFactory(w.volumes, 0)
	claims := metadatainformer.NewFilteredSharedInformerFactory(w.metadata, 0, metav1.NamespaceAll, func(options *metav1.ListOptions) {
		options.LabelSelector = managedByLabel + "=" + manager
	})
	s := &seen{volumes: volumes.ForResource(Resource).Lister(), claims: claims.ForResource(claimResource).Lister(), stop: stop}
	err := errors.Join(
		w.handle(volumes.ForResource(Resource).Informer(), slimVolume),
		w.handle(claims.ForResource(claimResource).Informer(), slimClaim))
	if err != nil {
		w.logger.Errorw("Failed to follow SupervisorVolumes and claims", zap.Error(err))
		stop()
		return
	}
	volumes.Start(ctx.Done())
	claims.Start(ctx.Done())
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	listed := volumes.WaitForCacheSync(bounded.Done())
	maps.Copy(listed, claims.WaitForCacheSync(bounded.Done()))
	for resource, synced := range listed {
		if !synced {
			w.logger.Warnw("Listing what claims need took too long; trying again", zap.String("resource", resource.Resource))
			stop()
			return
		}
	}
	w.logger.Info("Found config/claims: where the delivery is claim, pods mount claims that are ready")
	w.current.Store(s)
	w.absent.Store(false)
	w.changed("")
}

func (w *watch) handle(informer cache.SharedIndexInformer, slim cache.TransformFunc) error {
	_, err := informer.AddEventHandler(w.handler())
	return errors.Join(err, informer.SetTransform(slim))
}

func (w *watch) handler() cache.ResourceEventHandler {
	enqueue := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, err := meta.Accessor(object); err == nil {
			w.changed(o.GetNamespace())
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(_, now any) { enqueue(now) },
	}
}

// supervisorVolume returns the SupervisorVolume of a namespace, nil if it has none.
func (s *seen) supervisorVolume(namespace string) (*SupervisorVolume, error) {
	object, err := s.volumes.ByNamespace(namespace).Get(Name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // No SupervisorVolume is no error.
	}
	if err != nil {
		return nil, err
	}
	return fromUntyped(object.(*unstructured.Unstructured))
}

// claim returns a claim of the reconciler's by its name, nil if it doesn't exist.
func (s *seen) claim(namespace, name string) metav1.Object {
	object, err := s.claims.ByNamespace(namespace).Get(name)
	if err != nil {
		return nil
	}
	return accessor(object)
}

func accessor(object runtime.Object) metav1.Object {
	o, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return o
}
