// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

var (
	thisRelease = Images{"registry.test/copier@sha256:" + strings.Repeat("1", 64), "registry.test/withlogs@sha256:" + strings.Repeat("2", 64)}
	nextRelease = Images{"registry.test/copier@sha256:" + strings.Repeat("3", 64), "registry.test/withlogs@sha256:" + strings.Repeat("4", 64)}
)

type operators struct{ delivery pod.Delivery }

func (o operators) Load() *config.Config {
	return &config.Config{Policy: pod.Policy{Delivery: o.delivery}}
}

// A world is a cluster whose namespace "tenant" asks for claims, and the reconciler.
type world struct {
	t                  *testing.T
	kube               *fake.Clientset
	dynamic            *dynamicfake.FakeDynamicClient
	namespace          *corev1.Namespace
	volumes, claims    cache.Indexer
	filler             *filler
	uids               int
	again              time.Duration
	installed, refused bool
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{
		t:    t,
		kube: fake.NewClientset(objects...),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{Resource: "SupervisorVolumeList"}),
		namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Annotations: map[string]string{
			pod.InjectAnnotation: "true", pod.DeliveryAnnotation: string(pod.DeliveryClaim),
		}}},
		installed: true,
	}
	// What an API server does for what is created.
	w.kube.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if w.refused {
			return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "it", context.Canceled)
		}
		w.uids++
		object := action.(clienttesting.CreateAction).GetObject()
		accessor(object).SetUID(types.UID(strings.Repeat("u", w.uids)))
		accessor(object).SetCreationTimestamp(metav1.Now())
		return false, nil, nil
	})
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, namespaces.Add(w.namespace))
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	w.volumes, w.claims = cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace), cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	w.filler = &filler{
		images: thisRelease, client: w.kube, volumes: w.dynamic, config: operators{}, namespaces: corelisters.NewNamespaceLister(namespaces),
		seen: func() *seen {
			if !w.installed {
				return nil
			}
			return w.seen()
		},
		absent: func() bool { return !w.installed },
	}
	require.NoError(t, w.filler.Promote(reconciler.UniversalBucket(), nil))
	return w
}

func (w *world) seen() *seen {
	return &seen{
		volumes: cache.NewGenericLister(w.volumes, Resource.GroupResource()),
		claims:  cache.NewGenericLister(w.claims, claimResource.GroupResource()),
	}
}

// write makes a SupervisorVolume as its owner does.
func (w *world) write(spec Spec, labels map[string]string) {
	w.t.Helper()
	v := &SupervisorVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: Resource.GroupVersion().String(), Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: "tenant", UID: "volume", Generation: 1, Labels: labels},
		Spec:       spec,
	}
	object, err := v.untyped()
	require.NoError(w.t, err)
	volumes := w.dynamic.Resource(Resource).Namespace("tenant")
	if old := w.supervisorVolume(); old != nil {
		v.Generation, v.Status = old.Generation+1, old.Status
		object, err = v.untyped()
		require.NoError(w.t, err)
		_, err = volumes.Update(w.t.Context(), object, metav1.UpdateOptions{})
	} else {
		_, err = volumes.Create(w.t.Context(), object, metav1.CreateOptions{})
	}
	require.NoError(w.t, err)
}

func (w *world) supervisorVolume() *SupervisorVolume {
	w.t.Helper()
	object, err := w.dynamic.Resource(Resource).Namespace("tenant").Get(w.t.Context(), Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	v, err := fromUntyped(object)
	require.NoError(w.t, err)
	return v
}

// reconcile has the caches follow, and reconciles once.
func (w *world) reconcile() error {
	w.t.Helper()
	w.sync()
	w.again = 0
	err := w.filler.Reconcile(w.t.Context(), "tenant")
	w.sync()
	if again, after := controller.IsRequeueKey(err); again {
		w.again = after
		return nil
	}
	return err
}

func (w *world) sync() {
	w.t.Helper()
	var volumes, claims []any
	list, err := w.dynamic.Resource(Resource).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	for i := range list.Items {
		volumes = append(volumes, &list.Items[i])
	}
	for _, claim := range w.allClaims() {
		claims = append(claims, &metav1.PartialObjectMetadata{ObjectMeta: claim.ObjectMeta})
	}
	require.NoError(w.t, w.volumes.Replace(volumes, ""))
	require.NoError(w.t, w.claims.Replace(claims, ""))
}

func (w *world) allClaims() []corev1.PersistentVolumeClaim {
	w.t.Helper()
	list, err := w.kube.CoreV1().PersistentVolumeClaims("tenant").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

// onlyClaim is the one that there is.
func (w *world) onlyClaim() *corev1.PersistentVolumeClaim {
	w.t.Helper()
	all := w.allClaims()
	require.Len(w.t, all, 1)
	return &all[0]
}

func (w *world) bind(claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	claim.Status.Phase = corev1.ClaimBound
	_, err := w.kube.CoreV1().PersistentVolumeClaims("tenant").UpdateStatus(w.t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func (w *world) allJobs() []batchv1.Job {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs("tenant").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

// finish has the only Job end.
func (w *world) finish(how batchv1.JobConditionType, message string) {
	w.t.Helper()
	jobs := w.allJobs()
	require.Len(w.t, jobs, 1)
	jobs[0].Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Message: message}}
	_, err := w.kube.BatchV1().Jobs("tenant").UpdateStatus(w.t.Context(), &jobs[0], metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// ready is what a pod would be given.
func (w *world) ready() string {
	c := &Claims{images: w.filler.images}
	if w.installed {
		c.watch.current.Store(w.seen())
	}
	return c.Ready("tenant")
}

// requireCondition looks at Ready.
func (w *world) requireCondition(status corev1.ConditionStatus, reason, message string) {
	w.t.Helper()
	c := w.supervisorVolume().Status.GetCondition(apis.ConditionReady)
	require.NotNil(w.t, c)
	require.Equal(w.t, status, c.Status, "%s", c.Message)
	require.Equal(w.t, reason, c.Reason)
	require.Contains(w.t, c.Message, message)
	// What is as it should be is left alone.
	w.dynamic.ClearActions()
	require.NoError(w.t, w.reconcile())
	for _, action := range w.dynamic.Actions() {
		require.Contains(w.t, []string{"list", "get"}, action.GetVerb())
	}
}

// filledClaim is a world whose claim is ready.
func filledClaim(t *testing.T, spec Spec) *world {
	t.Helper()
	w := newWorld(t)
	w.write(spec, nil)
	require.NoError(t, w.reconcile())
	w.bind(w.onlyClaim())
	require.NoError(t, w.reconcile())
	w.finish(batchv1.JobComplete, "")
	for range 2 { // the second deletes the Job
		require.NoError(t, w.reconcile())
	}
	return w
}

func class(name string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "provisioner.test", VolumeBindingMode: &mode}
}

func ofClass(name string) Spec {
	return Spec{VolumeClaimTemplate: Template{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &name}}}
}
