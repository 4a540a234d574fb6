// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// namespaces reads namespaces.
type namespaces struct {
	cached listers.NamespaceLister
	client kubernetes.Interface
	// reads limits fresh.
	reads flowcontrol.PassiveRateLimiter
}

// A caller that isn't an API server can cause this many reads of namespaces a second,
// and this many at once.
const freshReadsPerSecond, freshReadsAtOnce = 50, 200

// get returns a namespace. The cache may not know the namespace yet when its first pod is
// created.
func (n namespaces) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := n.cached.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return n.fresh(ctx, name)
	case err != nil:
		return nil, unread(name, err)
	default:
		return namespace, nil
	}
}

// fresh returns a namespace as the API server has it. The API server calls for a pod as
// soon as its namespace has the label; the cache may lag behind.
func (n namespaces) fresh(ctx context.Context, name string) (*corev1.Namespace, error) {
	if !n.reads.TryAccept() {
		return nil, unread(name, errors.New("too many namespaces were read in the last second"))
	}
	namespace, err := n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unread(name, err)
	}
	return namespace, nil
}

func unread(name string, err error) error {
	return fmt.Errorf("reading namespace %q: %w; try again", name, err)
}

// optedIn reports whether the API server may call the webhook for pods of a namespace: it
// selects namespaces by the label, which follows the annotation.
func optedIn(namespace *corev1.Namespace) bool {
	label := pod.Scope(namespace.Labels[pod.InjectAnnotation])
	scope, err := pod.NamespaceScope(namespace.Annotations)
	return label == pod.OwnedPods || label == pod.AllPods || err == nil && scope != pod.NoPods
}

// asksForAll reports whether all pods of a namespace are wrapped. The label doesn't
// count: without the annotation, the namespace has opted out.
func asksForAll(namespace *corev1.Namespace) bool {
	scope, err := pod.NamespaceScope(namespace.Annotations)
	return err == nil && scope == pod.AllPods
}
