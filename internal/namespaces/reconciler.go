// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	mwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/mutatingwebhookconfiguration"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	namespacereconciler "knative.dev/pkg/client/injection/kube/reconciler/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// NewReconciler returns a constructor of the controller that derives the label and the
// grant of each namespace from its annotation. The label makes API servers call the
// webhook for pods.
func NewReconciler(podWebhook string) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl { return newReconciler(ctx, podWebhook) }
}

func newReconciler(ctx context.Context, podWebhook string) *controller.Impl {
	client, namespaces, bindings := kubeclient.Get(ctx), namespaceinformer.Get(ctx), bindingInformer(ctx)
	configurations := mwcinformer.Get(ctx).Lister()
	r := &follower{
		rule:     newRule(system.Namespace()),
		callable: func() bool { return admission.HasCABundle(configurations, podWebhook) },
		labels:   labels{client: client},
		grants: grants{
			client:     client,
			own:        system.Namespace(),
			namespaces: namespaces.Lister(),
			bindings:   rbaclisters.NewRoleBindingLister(bindings.GetIndexer()),
		},
	}
	concerns := func(object any) bool { return r.grants.concerns(object) }
	impl := namespacereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, AgentName: "entrypointer", PromoteFilterFunc: concerns}
	})
	// The informers' resync makes it look at every namespace again, in case an event was lost.
	watch(ctx, namespaces.Informer(), slimNamespace(), cache.FilteringResourceEventHandler{FilterFunc: concerns, Handler: controller.HandleAll(impl.Enqueue)})
	watch(ctx, bindings, slimBinding(), controller.HandleAll(impl.EnqueueNamespaceOf))
	return impl
}

func watch(ctx context.Context, informer cache.SharedIndexInformer, slim cache.TransformFunc, handler cache.ResourceEventHandler) {
	_, err := informer.AddEventHandler(handler)
	if err := errors.Join(err, informer.SetTransform(slim)); err != nil {
		logging.FromContext(ctx).Fatalw("Failed to watch namespaces and their grants", zap.Error(err))
	}
}

// callableAgain is the time between two checks whether API servers can call the webhook
// for pods.
const callableAgain = time.Second

type follower struct {
	rule rule
	// callable reports whether API servers can call the webhook for pods.
	callable func() bool
	labels   labels
	grants   grants
}

var _ namespacereconciler.Interface = (*follower)(nil)

// ReconcileKind implements namespacereconciler.Interface. It isn't called for a namespace
// that is being deleted, whose content is deleted anyway.
func (f *follower) ReconcileKind(ctx context.Context, ns *corev1.Namespace) reconciler.Event {
	scope, mistake := f.rule.wants(ns)
	if scope != pod.NoPods && !follows(ns, scope) && !f.callable() {
		// Until then, a policy refuses pods that would run unwrapped, with a clearer
		// message.
		return controller.NewRequeueAfter(callableAgain)
	}
	if err := f.labels.follow(ctx, ns, scope); err != nil {
		return err
	}
	if mistake != nil {
		if err := f.grants.revoke(ctx, ns.Name); err != nil {
			return err
		}
		return reconciler.NewEvent(corev1.EventTypeWarning, "NotOptedIn", "%s", mistake.Error())
	}
	if scope == pod.NoPods {
		return f.grants.revoke(ctx, ns.Name)
	}
	return f.grants.grant(ctx, ns.Name)
}
