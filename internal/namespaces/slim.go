// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// domain is that of all annotations and labels of entrypointer.
const domain = "entrypointer.dev"

// slimNamespace returns a transformation that keeps only what the injector reads of a
// namespace, because it holds all namespaces of the cluster. Others' annotations are most
// of a namespace: each may have 256 KiB. Writing never sends the cached object.
func slimNamespace() cache.TransformFunc {
	var labels, annotations kept[map[string]string]
	labels.equal, annotations.equal = maps.Equal[map[string]string], maps.Equal[map[string]string]
	return func(object any) (any, error) {
		ns, ok := object.(*corev1.Namespace)
		if !ok {
			return object, nil
		}
		slim := &corev1.Namespace{ObjectMeta: slimMeta(ns)}
		slim.Labels, slim.Annotations = labels.of(ours(ns.Labels)), annotations.of(ours(ns.Annotations))
		return slim, nil
	}
}

// slimBinding returns the same for the RoleBindings of GrantName, which are as many as the
// namespaces that opted in.
func slimBinding() cache.TransformFunc {
	var labels kept[map[string]string]
	var owners kept[[]metav1.OwnerReference]
	var subjects kept[[]rbacv1.Subject]
	var roles kept[rbacv1.RoleRef]
	labels.equal = maps.Equal[map[string]string]
	owners.equal = func(a, b []metav1.OwnerReference) bool { return slices.EqualFunc(a, b, sameOwner) }
	subjects.equal = slices.Equal[[]rbacv1.Subject]
	roles.equal = func(a, b rbacv1.RoleRef) bool { return a == b }
	return func(object any) (any, error) {
		binding, ok := object.(*rbacv1.RoleBinding)
		if !ok {
			return object, nil
		}
		slim := &rbacv1.RoleBinding{ObjectMeta: slimMeta(binding), Subjects: subjects.of(binding.Subjects), RoleRef: roles.of(binding.RoleRef)}
		if slim.Name == GrantName {
			slim.Name = GrantName // the constant takes no memory
		}
		slim.Labels, slim.OwnerReferences = labels.of(binding.Labels), owners.of(binding.OwnerReferences)
		return slim, nil
	}
}

// slimMeta keeps what identifies an object, and whether it is being deleted.
func slimMeta(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
	}
}

// ours returns the annotations or labels of entrypointer's domain and of domains below it.
func ours(all map[string]string) (found map[string]string) {
	for key, value := range all {
		of, _, _ := strings.Cut(key, "/")
		if of != domain && !strings.HasSuffix(of, "."+domain) {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[key] = value
	}
	return found
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		isTrue(a.Controller) == isTrue(b.Controller) && isTrue(a.BlockOwnerDeletion) == isTrue(b.BlockOwnerDeletion)
}

func isTrue(b *bool) bool { return b != nil && *b }

// kept lets objects share a value that is equal in most of them. Cached objects aren't
// changed.
type kept[T any] struct {
	equal func(a, b T) bool

	mu   sync.Mutex
	last T
}

// of returns the last value if this one is equal to it, and this one otherwise. An empty
// value takes no memory, and isn't kept.
func (k *kept[T]) of(value T) T {
	var empty T
	if k.equal(value, empty) {
		return value
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.equal(value, k.last) {
		k.last = value
	}
	return k.last
}
