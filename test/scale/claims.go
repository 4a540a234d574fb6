// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/internal/claims"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// storageClass is the class of the claims. As with most storage, a volume is made when a pod
// wants to mount the claim.
const storageClass = "scale"

// measureClaims measures namespaces whose pods mount the supervisor from claims.
func measureClaims(ctx context.Context, w *world, f *figures) error {
	f.Claims = nil
	if err := w.beginWithInjector(ctx); err != nil {
		return err
	}
	if err := w.createStorageClass(ctx); err != nil {
		return err
	}
	before := 0
	for _, n := range w.plan.claims {
		if err := w.createNamespaces(ctx, "claims-", before, n, true); err != nil {
			return err
		}
		if err := awaitGrants(ctx, "claims-", n); err != nil {
			return err
		}
		without, err := w.etcdBytes(ctx)
		if err != nil {
			return err
		}
		used, ready, err := w.fillClaims(ctx, before, n)
		if err != nil {
			return err
		}
		g, err := w.observe(ctx, n)
		if err != nil {
			return err
		}
		g.New, g.Granted, g.EtcdOurs = n-before, ready, g.Etcd-without
		if g.New > 0 {
			g.Change = used / time.Duration(g.New)
		}
		f.Claims = append(f.Claims, g)
		before = n
		if err := keepHeap(ctx, fmt.Sprint("claims-", n)); err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if err := w.ensureAccount(ctx, "claims-0"); err != nil {
			return err
		}
		if _, err := w.cluster.WaitForDelivery(ctx, "claims-0", framework.Claim); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) createStorageClass(ctx context.Context) error {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := w.cluster.Kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "scale.example", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	return ignoreExisting(err)
}

// fillClaims has namespaces ask for claims, and waits until all are ready and their Jobs are
// gone. It returns the processor time of the injector, and the time until then.
func (w *world) fillClaims(ctx context.Context, from, to int) (used, took time.Duration, err error) {
	running, stop := context.WithCancel(ctx)
	stopped, err := w.runJobs(running)
	if err != nil {
		stop()
		return 0, 0, err
	}
	defer stopped()
	defer stop()
	before, err := w.injector.Usage()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	asks := []byte(`{"metadata":{"annotations":{"` + pod.DeliveryAnnotation + `":"` + framework.Claim + `"}}}`)
	if err := each(ctx, from, to, func(ctx context.Context, i int) error {
		_, err := w.cluster.Kube.CoreV1().Namespaces().Patch(ctx, fmt.Sprint("claims-", i), types.MergePatchType, asks, metav1.PatchOptions{})
		return err
	}); err != nil {
		return 0, 0, err
	}
	if err := framework.Eventually(ctx, settleLimit, fmt.Sprintf("%d claims to be ready", to), func(ctx context.Context) error {
		ready, err := w.readyClaims(ctx)
		if err == nil && ready < to {
			err = fmt.Errorf("%d are", ready)
		}
		return err
	}); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	if err := framework.Eventually(ctx, settleLimit, "the Jobs of the claims to be deleted", func(ctx context.Context) error {
		left, err := countKeys(ctx, "/registry/jobs/claims-")
		if err == nil && left > 0 {
			err = fmt.Errorf("there are %d", left)
		}
		return err
	}); err != nil {
		return 0, 0, err
	}
	after, err := w.injector.Usage()
	return after.CPU - before.CPU, took, err
}

// readyClaims counts the namespaces whose pods mount a claim.
func (w *world) readyClaims(ctx context.Context) (ready int, err error) {
	list, err := w.cluster.Dynamic.Resource(claims.Resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	for _, volume := range list.Items {
		if status, ok := volume.Object["status"].(map[string]any); ok && status["claimName"] != nil {
			ready++
		}
	}
	return ready, nil
}

// runJobs does what the controllers and the kubelet of a cluster do with a Job that fills a
// claim: the claim gets a volume, and the Job completes. Its pod isn't made, because the
// injector looks at the Job alone. It ends with ctx, and stopped waits for that.
func (w *world) runJobs(ctx context.Context) (stopped func(), err error) {
	factory := informers.NewSharedInformerFactory(w.cluster.Kube, 0)
	jobs := make(chan *batchv1.Job, 10_000)
	_, err = factory.Batch().V1().Jobs().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if job, ok := object.(*batchv1.Job); ok {
			jobs <- job
		}
	}})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	var workers sync.WaitGroup
	for range writers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case job := <-jobs:
					if err := w.completeJob(ctx, job); err != nil && ctx.Err() == nil {
						log.Print(err) // the claim doesn't become ready
					}
				}
			}
		})
	}
	return func() {
		workers.Wait()
		factory.Shutdown()
	}, nil
}

func (w *world) completeJob(ctx context.Context, job *batchv1.Job) error {
	now := metav1.Now()
	status := batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = w.bindClaim(ctx, job.Namespace, job.Name)
	}
	if err == nil {
		_, err = w.cluster.Kube.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("completing Job %q of namespace %q: %w", job.Name, job.Namespace, err)
	}
	return nil
}

// bindClaim gives a claim a volume.
func (w *world) bindClaim(ctx context.Context, namespace, name string) error {
	claim, err := w.cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: storageClass, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.2", Path: "/" + name}},
		},
	}
	if _, err := w.cluster.Kube.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); ignoreExisting(err) != nil {
		return err
	}
	claim.Spec.VolumeName = volume.Name
	if claim, err = w.cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: volume.Spec.Capacity}
	_, err = w.cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}
