// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	impl := namespacereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, AgentName: "entrypointer", PromoteFilterFunc: r.concerns}
	})
	// The informers' resync makes it look at every namespace again, in case an event was lost.
	watch(ctx, namespaces.Informer(), slimNamespace(), cache.FilteringResourceEventHandler{FilterFunc: r.concerns, Handler: changes(impl.Enqueue)})
	watch(ctx, bindings, slimBinding(), cache.FilteringResourceEventHandler{FilterFunc: r.concernsNamespaceOf, Handler: changes(impl.EnqueueNamespaceOf)})
	return impl
}

// changes returns a handler of all events but those of the objects that exist at the start:
// a replica looks at all namespaces when it begins to lead. A queue that once had as many
// keys keeps the memory for them.
func changes(do func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if !isInInitialList {
				do(object)
			}
		},
		UpdateFunc: func(_, object any) { do(object) },
		DeleteFunc: do,
	}
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

// concerns reports whether a namespace needs a label or a grant, has to lose one, or has a
// mistake to report. It reports true for what isn't known. The handlers' filter also passes
// a namespace that was concerned before the event.
func (f *follower) concerns(object any) bool {
	ns, ok := object.(*corev1.Namespace)
	if !ok {
		return true
	}
	scope, mistake := f.rule.wants(ns)
	return mistake != nil || !follows(ns, scope) || !f.grants.areWanted(ns.Name, scope)
}

// concernsNamespaceOf reports the same for the namespace of a grant.
func (f *follower) concernsNamespaceOf(object any) bool {
	binding, ok := object.(*rbacv1.RoleBinding)
	if !ok {
		return true
	}
	ns, err := f.grants.namespaces.Get(binding.Namespace)
	return err != nil || f.concerns(ns)
}

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
