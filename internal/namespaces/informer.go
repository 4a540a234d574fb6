// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
)

// knative.dev/pkg's own informers hold all RoleBindings of a cluster, or those with a
// label. This informer holds those of GrantName: they are few, and RBAC allows a client
// that selects a name to see only these.
func init() {
	injection.Default.RegisterInformer(func(ctx context.Context) (context.Context, controller.Informer) {
		factory := informers.NewSharedInformerFactoryWithOptions(kubeclient.Get(ctx), controller.GetResyncPeriod(ctx),
			informers.WithTweakListOptions(func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, GrantName).String()
			}),
		)
		bindings := factory.Rbac().V1().RoleBindings()
		return context.WithValue(ctx, bindingsKey{}, bindings), bindings.Informer()
	})
}

type bindingsKey struct{}

func bindingInformer(ctx context.Context) rbacinformers.RoleBindingInformer {
	return ctx.Value(bindingsKey{}).(rbacinformers.RoleBindingInformer)
}
