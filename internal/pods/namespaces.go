// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// namespaces has what the namespaces say.
type namespaces struct {
	cached listers.NamespaceLister
	client kubernetes.Interface
}

// defaults are the options that a namespace has for its pods. The first pod of
// a namespace may be there before the cache has heard of that.
func (n namespaces) defaults(ctx context.Context, name string) (pod.Defaults, error) {
	namespace, err := n.cached.Get(name)
	if apierrors.IsNotFound(err) {
		namespace, err = n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return pod.Defaults{}, fmt.Errorf("reading the options of namespace %q: %w; try again", name, err)
	}
	return pod.NamespaceDefaults(namespace.Name, namespace.Annotations), nil
}
