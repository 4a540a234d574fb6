// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// applied is a namespace that kubectl applied, as an API server sends it.
func applied(t *testing.T, name string, annotations map[string]string) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid(name), ResourceVersion: "123456", CreationTimestamp: metav1.Now(),
			Labels:      map[string]string{corev1.LabelMetadataName: name, "team": "payments"},
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 300)},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 500)),
			}},
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	maps.Copy(ns.Annotations, annotations)
	if value, set := annotations[pod.InjectAnnotation]; set {
		ns.Labels[pod.InjectAnnotation] = value
	}
	return sent(t, ns, &corev1.Namespace{})
}

// granted is the grant of a namespace, as an API server sends it.
func granted(t *testing.T, namespace string) *rbacv1.RoleBinding {
	t.Helper()
	binding := grantOf(metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: own, UID: uid(own)}, own, namespace)
	binding.TypeMeta = metav1.TypeMeta{}
	binding.UID, binding.ResourceVersion, binding.CreationTimestamp = uid(namespace), "123457", metav1.Now()
	binding.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fieldManager, FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 400))}}
	return sent(t, binding, &rbacv1.RoleBinding{})
}

// sent decodes an object from its wire format, so that it shares no memory.
func sent[T interface{ Unmarshal([]byte) error }](t *testing.T, object interface{ Marshal() ([]byte, error) }, into T) T {
	t.Helper()
	text, err := object.Marshal()
	require.NoError(t, err)
	require.NoError(t, into.Unmarshal(text))
	return into
}

func uid(name string) types.UID { return types.UID(fmt.Sprintf("%036s", name)) }

func slimmed[T any](t *testing.T, slim cache.TransformFunc, object T) T {
	t.Helper()
	got, err := slim(object)
	require.NoError(t, err)
	return got.(T)
}

func TestOfANamespaceOnlyWhatIsReadIsKept(t *testing.T) {
	ns := applied(t, "team", map[string]string{
		"entrypointer.dev/inject": "true", "entrypointer.dev/timeout": "1h", "app.entrypointer.dev/x": "y", "notentrypointer.dev/inject": "true",
	})
	gone := metav1.Now()
	ns.DeletionTimestamp = &gone
	require.Equal(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "team", UID: uid("team"), ResourceVersion: "123456", DeletionTimestamp: &gone,
		Labels:      map[string]string{"entrypointer.dev/inject": "true"},
		Annotations: map[string]string{"entrypointer.dev/inject": "true", "entrypointer.dev/timeout": "1h", "app.entrypointer.dev/x": "y"},
	}}, slimmed(t, slimNamespace(), ns))
}

// What is decided of a namespace doesn't change by what the cache leaves out.
func TestASlimNamespaceHasTheSameOptions(t *testing.T) {
	annotations := map[string]string{pod.InjectAnnotation: "all", pod.DeliveryAnnotation: "auto"}
	for _, name := range []string{"timeout", "grace-period", "logs", "defaults"} {
		annotations["entrypointer.dev/"+name] = "1h"
	}
	ns := applied(t, "team", annotations)
	slim := slimmed(t, slimNamespace(), ns)
	require.Equal(t, pod.NamespaceDefaults(ns.Name, ns.Annotations), pod.NamespaceDefaults(slim.Name, slim.Annotations))
	require.NotEmpty(t, pod.NamespaceDefaults(slim.Name, slim.Annotations).Values)
	scope, err := pod.NamespaceScope(slim.Annotations)
	require.NoError(t, err)
	require.Equal(t, pod.AllPods, scope)
	delivery, err := pod.NamespaceDelivery(slim.Annotations)
	require.NoError(t, err)
	require.Equal(t, pod.DeliveryAuto, delivery)
}

func TestNamespacesThatDifferShareNothing(t *testing.T) {
	slim := slimNamespace()
	for _, value := range []string{"true", "true", "all", "false", "true"} {
		ns := slimmed(t, slim, applied(t, "team", map[string]string{pod.InjectAnnotation: value}))
		require.Equal(t, map[string]string{pod.InjectAnnotation: value}, ns.Annotations)
	}
	plain := applied(t, "plain", nil)
	require.Empty(t, slimmed(t, slim, plain).Annotations)
	require.Empty(t, slimmed(t, slim, plain).Labels)
}

func TestASlimGrantIsStillCurrent(t *testing.T) {
	slim := slimBinding()
	for _, namespace := range []string{"a", "b"} {
		binding := granted(t, namespace)
		got := slimmed(t, slim, binding)
		want := binding.DeepCopy()
		want.ManagedFields, want.CreationTimestamp = nil, metav1.Time{}
		require.Equal(t, want, got)
		require.True(t, isCurrent(got, grantOf(binding.OwnerReferences[0], own, namespace)))
	}
	for difference, change := range map[string]func(*rbacv1.RoleBinding){
		"role":     func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "cluster-admin" },
		"subjects": func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "somebody" },
		"labels":   func(b *rbacv1.RoleBinding) { b.Labels = nil },
		"owner":    func(b *rbacv1.RoleBinding) { b.OwnerReferences[0].UID = "another" },
		"no owner": func(b *rbacv1.RoleBinding) { b.OwnerReferences = nil },
		"an owner that blocks": func(b *rbacv1.RoleBinding) {
			b.OwnerReferences[0].BlockOwnerDeletion = new(true)
		},
	} {
		t.Run(difference, func(t *testing.T) {
			binding := granted(t, "c")
			change(binding)
			got := slimmed(t, slim, binding)
			binding.ManagedFields, binding.CreationTimestamp = nil, metav1.Time{}
			require.Equal(t, binding, got)
		})
	}
}

// The informers' caches hold each namespace of a cluster, and each grant.
func TestANamespaceTakesAKilobyteOfTheCaches(t *testing.T) {
	const pairs = 5000 // a namespace that opted in, and one that didn't
	const goal = 1024  // bytes for each namespace
	slimNS, slimRB := slimNamespace(), slimBinding()
	namespaces, bindings := newIndexer(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, grantIndexers)
	before := reachable()
	for i := range pairs {
		team, plain := fmt.Sprint("team-", i), fmt.Sprint("plain-", i)
		require.NoError(t, namespaces.Add(slimmed(t, slimNS, applied(t, team, map[string]string{pod.InjectAnnotation: "true"}))))
		require.NoError(t, namespaces.Add(slimmed(t, slimNS, applied(t, plain, nil))))
		require.NoError(t, bindings.Add(slimmed(t, slimRB, granted(t, team))))
	}
	each := (reachable() - before) / (2 * pairs)
	require.Positive(t, each)
	require.Less(t, each, int64(goal))
	runtime.KeepAlive(namespaces)
	runtime.KeepAlive(bindings)
}

// reachable returns the bytes of the heap after a garbage collection.
func reachable() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
