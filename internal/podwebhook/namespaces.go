// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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

// get returns a namespace. The first pod of a namespace may be there before the
// cache has heard of that.
func (n namespaces) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := n.cached.Get(name)
	if apierrors.IsNotFound(err) {
		namespace, err = n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w; try again", name, err)
	}
	return namespace, nil
}

// optedIn says whether the API server may well ask about pods of a namespace: it
// selects by the label, which follows the annotation.
func optedIn(namespace *corev1.Namespace) bool {
	label := pod.Scope(namespace.Labels[pod.InjectAnnotation])
	scope, err := pod.NamespaceScope(namespace.Annotations)
	return label == pod.OwnedPods || label == pod.AllPods || err == nil && scope != pod.NoPods
}

// asksForAll reports whether all pods of a namespace are wrapped. The label doesn't
// count: without the annotation, nobody wants that any more.
func asksForAll(namespace *corev1.Namespace) bool {
	scope, err := pod.NamespaceScope(namespace.Annotations)
	return err == nil && scope == pod.AllPods
}
