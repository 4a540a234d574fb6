// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	knativesystem "knative.dev/pkg/system"
)

// NewController returns the controller. The leader runs canaries, and each replica
// follows the nodes and the proofs. Without the rights for either, a replica only checks
// periodically whether it has them.
func (a *Auto) NewController(ctx context.Context, watcher configmap.Watcher) *controller.Impl {
	logger, client := logging.FromContext(ctx).Named("delivery"), kubeclient.Get(ctx)
	counts, err := newMetrics(otel.GetMeterProvider(), a.Verdict)
	if err != nil {
		logger.Fatalw("Failed to register metrics", zap.Error(err))
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	c := &canaries{
		auto: a, client: client, own: knativesystem.Namespace(), metrics: counts, now: time.Now,
		events: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "entrypointer"}),
		LeaderAwareFuncs: reconciler.LeaderAwareFuncs{
			PromoteFunc: func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
				enqueue(bucket, key)
				return nil
			},
		},
	}
	impl := controller.NewContext(ctx, c, controller.ControllerOptions{WorkQueueName: "delivery", Logger: logger, Concurrency: 1})
	c.later = func(pause time.Duration) { impl.EnqueueKeyAfter(key, pause) }
	a.attach(logger, func() { impl.EnqueueKey(key) })

	remembered, ok := watcher.(configmap.DefaultingWatcher)
	if !ok {
		logger.Fatalf("Failed to watch ConfigMap %q: the watcher %T doesn't take a default for one that may be missing", ProofsName, watcher)
	}
	remembered.WatchWithDefault(corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: knativesystem.Namespace(), Name: ProofsName}}, a.learnProofs)
	if _, err := namespaceinformer.Get(ctx).Informer().AddEventHandler(a.namespaceHandler(c.own)); err != nil {
		logger.Fatalw("Failed to watch namespaces", zap.Error(err))
	}
	f := &follower{auto: a, client: client, version: serverVersion(client), logger: logger}
	go f.follow(ctx)
	return impl
}

// attach sets the logger, and the function that triggers the leader's reconciliation.
func (a *Auto) attach(logger *zap.SugaredLogger, wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logger, a.wake = logger, wake
}
