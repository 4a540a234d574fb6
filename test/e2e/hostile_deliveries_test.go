// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/internal/claims"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// managed labels what the claims' reconciler makes.
const managed = "app.kubernetes.io/managed-by"

// inBulk does something n times, hostileAtOnce at a time, and joins the errors.
func inBulk(n int, do func(i int) error) error {
	faults := make([]error, n)
	slots := make(chan struct{}, hostileAtOnce)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			faults[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

// requireNoReplicaDied compares with the restarts of before. Replicas that a rollout
// has just replaced may have gone meanwhile.
func requireNoReplicaDied(t *testing.T, before map[string]int32) {
	t.Helper()
	for name, count := range restarts(t) {
		require.Equal(t, before[name], count, "restarts of replica %q", name)
	}
}

// idleClass is a storage class that nobody makes volumes for.
func idleClass(t *testing.T) string {
	t.Helper()
	class, err := cluster.Kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{ours: "true"}}, Provisioner: "e2e.entrypointer.dev/nobody",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, cluster.Kube.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{}))
	})
	return class.Name
}

// askForClaims writes a SupervisorVolume, and has the namespace ask for its claim.
func askForClaims(t *testing.T, namespace, class string, template map[string]any) error {
	t.Helper()
	v := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": claims.Resource.GroupVersion().String(), "kind": claims.Kind, "metadata": map[string]any{"name": claims.Name},
		"spec": map[string]any{"volumeClaimTemplate": template},
	}}
	if err := unstructured.SetNestedField(v.Object, class, "spec", "volumeClaimTemplate", "spec", "storageClassName"); err != nil {
		return err
	}
	_, err := cluster.Dynamic.Resource(claims.Resource).Namespace(namespace).Apply(t.Context(), claims.Name, v, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
	if err != nil {
		return err
	}
	_, err = annotateKey(t.Context(), namespace, pod.DeliveryAnnotation, `"`+framework.Claim+`"`)
	return err
}

// quota is one of a namespace that has nothing of something left.
func quota(of corev1.ResourceName) func(t *testing.T, namespace, _ string) {
	return func(t *testing.T, namespace, _ string) {
		_, err := cluster.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse("0")}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// limits is a LimitRange.
func limits(of corev1.LimitRangeItem) func(t *testing.T, namespace, _ string) {
	return func(t *testing.T, namespace, _ string) {
		_, err := cluster.Kube.CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{of}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

var (
	largeClaims = corev1.LimitRangeItem{
		Type: corev1.LimitTypePersistentVolumeClaim, Min: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
	}
	smallContainers = corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
	}
)

func claimOf(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}
}

func takeClaimsName(t *testing.T, namespace, name string) {
	_, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claimOf(namespace, name), metav1.CreateOptions{})
	require.NoError(t, err)
}

func takeJobsName(t *testing.T, namespace, name string) {
	_, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{busybox(t, "main", "true")},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// manyAnnotations are as large as a SupervisorVolume may have them.
func manyAnnotations() map[string]any {
	many := map[string]any{}
	for i := range 32 {
		many[fmt.Sprint("example.test/", i)] = strings.Repeat("x", 4096)
	}
	return many
}

// hostileOwners are what can be in the way of a claim. Their namespaces' pods run
// meanwhile, by an init container, and their SupervisorVolumes say what is in the way.
var hostileOwners = []struct {
	name          string
	prepare       func(t *testing.T, namespace, claim string)
	template      map[string]any
	ready, reason string // as waitForColumns takes them
}{
	{"a quota of no Jobs", quota("count/jobs.batch"), map[string]any{}, "False", "JobRefused"},
	{"a LimitRange that lets the Job have no pod", limits(smallContainers), map[string]any{}, "Unknown", "Pending"},
	{"a quota of no storage", quota(corev1.ResourceRequestsStorage), map[string]any{}, "False", "ClaimRefused"},
	{"a LimitRange for claims", limits(largeClaims), map[string]any{}, "False", "ClaimRefused"},
	{"somebody else's claim", takeClaimsName, map[string]any{}, "False", "NameTaken"},
	{"somebody else's Job", takeJobsName, map[string]any{}, "Unknown", "Pending Job"},
	{"a label that is none", nil, map[string]any{"metadata": map[string]any{"labels": map[string]any{"no label!": "x"}}}, "False", "ClaimRefused"},
	{"a claim that was bound before", nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pv.kubernetes.io/bind-completed": "yes"}}}, "False", "ClaimLost"},
	{"an EiB, and annotations", nil, map[string]any{
		"metadata": map[string]any{"annotations": manyAnnotations()},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Ei"}}},
	}, "Unknown", "Pending"},
}

// floodWithClaims makes claims that pass for the injector's, in a namespace that
// has nothing to do with it.
func floodWithClaims(t *testing.T, class string, n int) error {
	t.Helper()
	namespace := plainNamespace(t)
	return inBulk(n, func(i int) error {
		claim := claimOf(namespace, fmt.Sprintf("entrypointer-%012x", i))
		claim.Spec.StorageClassName = &class
		claim.Labels, claim.Annotations = map[string]string{managed: "entrypointer"}, map[string]string{"long": strings.Repeat("x", 250_000)}
		_, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{})
		return err
	})
}

func TestTheWorstThatOwnersOfNamespacesDoToClaimsIsBorne(t *testing.T) {
	shared, idle := sharedClass(t), idleClass(t)
	before := restarts(t)
	watching, stop := context.WithCancel(t.Context())
	peak := watchMemory(watching, t)
	model := optedInNamespace(t)
	require.NoError(t, askForClaims(t, model, idle, map[string]any{}))
	var claim string
	eventually(t, patience, "the claim whose name others take", func() error {
		list, err := cluster.Kube.CoreV1().PersistentVolumeClaims(model).List(t.Context(), metav1.ListOptions{LabelSelector: managed + "=entrypointer"})
		if err == nil && len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		} else if err == nil {
			claim = list.Items[0].Name
		}
		return err
	})

	require.NoError(t, floodWithClaims(t, idle, 120))
	namespaces := make([]string, len(hostileOwners))
	for i, owner := range hostileOwners {
		namespaces[i] = optedInNamespace(t)
		if owner.prepare != nil {
			owner.prepare(t, namespaces[i], claim)
		}
		require.NoError(t, askForClaims(t, namespaces[i], idle, owner.template), owner.name)
	}
	many := make([]string, 24)
	for i := range many {
		many[i] = optedInNamespace(t)
	}
	require.NoError(t, inBulk(len(many), func(i int) error {
		if err := askForClaims(t, many[i], "no-such-class", map[string]any{}); err != nil || i%2 > 0 {
			return err
		}
		return cluster.Kube.CoreV1().Namespaces().Delete(t.Context(), many[i], metav1.DeleteOptions{})
	}))

	modest := claimNamespace(t, shared, pod.OwnedPods)
	_, err := framework.Run(t.Context(), "kubectl", "annotate", "svol", claims.Name, "-n", modest, "example.test/of-its-owner=kept")
	require.NoError(t, err)
	for i, owner := range hostileOwners {
		seen, err := wouldBecome(t, namespaces[i], askingPod("asks", busybox(t, "main", "true")))
		require.NoError(t, err, owner.name)
		require.Equal(t, framework.InitContainer, framework.Delivery(seen), owner.name)
		waitForColumns(t, namespaces[i], owner.ready, owner.reason)
	}
	for i := 1; i < len(many); i += 2 {
		waitForColumns(t, many[i], "False", "StorageClassNotFound")
	}
	waitForClaim(t, modest, waitForColumns(t, modest, "True", ""))
	v, err := cluster.Dynamic.Resource(claims.Resource).Namespace(modest).Get(t.Context(), claims.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "kept", v.GetAnnotations()["example.test/of-its-owner"], "writing a status leaves the rest alone")
	stop()
	t.Logf("the injector used %d MiB at most", peak()>>20)
	requireNoReplicaDied(t, before)
	require.Less(t, peak(), int64(halfOfTheLimit))

	for i := 0; i < len(many); i += 2 {
		eventually(t, patience, "namespace "+many[i]+" to be gone", func() error {
			_, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), many[i], metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("something keeps it: %w", err)
		})
	}
}
