// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
)

// grantIndexers are none, because grants are read by their namespace and name. An index
// would take as much memory as the grants.
var grantIndexers = cache.Indexers{}

// knative.dev/pkg's own informers hold all RoleBindings of a cluster, or those with a
// label. This informer holds those of GrantName: they are few, and RBAC allows a client
// that selects a name to see only these.
func init() {
	injection.Default.RegisterInformer(func(ctx context.Context) (context.Context, controller.Informer) {
		bindings := rbacinformers.NewFilteredRoleBindingInformer(kubeclient.Get(ctx), metav1.NamespaceAll, controller.GetResyncPeriod(ctx), grantIndexers,
			func(options *metav1.ListOptions) {
				options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, GrantName).String()
			})
		return context.WithValue(ctx, bindingsKey{}, bindings), bindings
	})
}

type bindingsKey struct{}

func bindingInformer(ctx context.Context) cache.SharedIndexInformer {
	return ctx.Value(bindingsKey{}).(cache.SharedIndexInformer)
}
