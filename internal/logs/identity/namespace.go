// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/api"
)

const (
	// namespaceTTL is for how long a namespace that isn't being deleted is cached. It is less
	// than the 5 s that Kubernetes waits before it deletes a namespace, so the UID of a cached
	// namespace is that of the existing one
	// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/namespace/namespace_controller.go).
	namespaceTTL = 3 * time.Second
	// namespaceTimeout bounds the reading of a namespace, which delays a pod's first request.
	namespaceTimeout = 2 * time.Second
	// youngNamespace is the age up to which a namespace may have been made after a review that
	// came before the reading: more than clocks differ, and longer than a review takes.
	youngNamespace = 5 * time.Minute
)

// Namespace implements api.Authenticator. Equal questions aren't merged, because an answer
// must not be older than the question.
func (r *Reviewer) Namespace(ctx context.Context, name string) (api.Namespace, error) {
	if known, ok := r.namespaces.Get(name); ok {
		return known.(api.Namespace), nil
	}
	began := r.now()
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	object, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Namespace{}, nil
	}
	if err != nil {
		return api.Namespace{}, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	namespace := api.Namespace{UID: string(object.UID), Created: object.CreationTimestamp.Time}
	if object.DeletionTimestamp == nil {
		r.namespaces.Add(name, namespace, namespaceTTL-r.now().Sub(began))
	}
	return namespace, nil
}

// withNamespace adds the UID of its namespace to a pod whose token was reviewed just now.
// While the namespace can't be read, the pod writes without it.
func (r *Reviewer) withNamespace(ctx context.Context, token string, pod api.Pod) (api.Pod, error) {
	namespace, err := r.Namespace(ctx, pod.Namespace)
	if err != nil {
		return pod, nil //nolint:nilerr // readers then go by the time of the stream
	}
	if namespace.UID == "" {
		return api.Pod{}, fmt.Errorf("checking a token: namespace %q is gone: %w", pod.Namespace, api.ErrUnauthenticated)
	}
	if r.now().Sub(namespace.Created) < youngNamespace {
		// Since the review, the pod may have gone with a former namespace.
		if pod, err = r.reviewWriter(ctx, token); err != nil {
			return api.Pod{}, err
		}
	}
	pod.NamespaceUID = namespace.UID
	return pod, nil
}
