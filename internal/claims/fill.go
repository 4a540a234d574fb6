// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provide returns the claim if it can be filled: it has a volume, or gets one for its
// first pod. Otherwise the status has the reason.
func (f *filler) provide(ctx context.Context, v *SupervisorVolume, name string) (*corev1.PersistentVolumeClaim, time.Duration, error) {
	claims := f.client.CoreV1().PersistentVolumeClaims(v.Namespace)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		claim, err = claims.Create(ctx, wantedClaim(v, name), metav1.CreateOptions{})
		if refuses(err) {
			v.manager().MarkFalse(Bound, ClaimRefused, "creating claim %q: %s; change spec.volumeClaimTemplate, or what forbids it", name, quoted(err.Error()))
			return nil, blockedCheckInterval, nil
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("providing claim %q in namespace %q: %w", name, v.Namespace, err)
	}
	switch {
	case claim.DeletionTimestamp != nil:
		v.manager().MarkUnknown(Bound, Pending, "claim %q is being deleted, which takes until no pod on a node mounts it; then entrypointer creates it again", name)
		return nil, blockedCheckInterval, nil
	case !metav1.IsControlledBy(claim, v):
		v.manager().MarkFalse(Bound, NameTaken, "a claim %q exists that doesn't belong to this SupervisorVolume; delete that claim", name)
		return nil, blockedCheckInterval, nil
	case claim.Status.Phase == corev1.ClaimLost:
		v.manager().MarkFalse(Bound, ClaimLost, "the volume of claim %q is gone; delete the claim, and entrypointer creates it again", name)
		return nil, blockedCheckInterval, nil
	case claim.Status.Phase == corev1.ClaimBound:
		v.manager().MarkTrue(Bound)
		return claim, 0, nil
	}
	waits, err := f.waitsForPod(ctx, v, claim)
	if err != nil || !waits {
		return nil, blockedCheckInterval, err
	}
	return claim, jobCheckInterval, nil
}

// waitsForPod reports whether a claim without a volume gets one as soon as a pod mounts
// it. Otherwise the status describes the obstacle.
func (f *filler) waitsForPod(ctx context.Context, v *SupervisorVolume, claim *corev1.PersistentVolumeClaim) (bool, error) {
	class := claim.Spec.StorageClassName
	if class == nil || *class == "" {
		v.manager().MarkUnknown(Bound, Pending, "claim %q has no storage class, and waits for a volume that an administrator creates; "+
			"name a class in spec.volumeClaimTemplate.spec.storageClassName (kubectl get storageclasses), or make one the default", claim.Name)
		return false, nil
	}
	found, err := f.client.StorageV1().StorageClasses().Get(ctx, *class, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		v.manager().MarkFalse(Bound, StorageClassNotFound, "there is no storage class %q; name another one in "+
			"spec.volumeClaimTemplate.spec.storageClassName (kubectl get storageclasses)", *class)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading storage class %q: %w", *class, err)
	}
	if found.VolumeBindingMode != nil && *found.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
		return true, nil
	}
	v.manager().MarkUnknown(Bound, Pending, "claim %q waits for %s to create its volume; if it takes long, see: kubectl -n %s describe persistentvolumeclaim %s",
		claim.Name, found.Provisioner, claim.Namespace, claim.Name)
	return false, nil
}

// fill reports whether the claim holds the binaries. If it doesn't, fill starts a Job
// that copies them.
func (f *filler) fill(ctx context.Context, v *SupervisorVolume, claim *corev1.PersistentVolumeClaim) (bool, time.Duration, error) {
	if v.Status.filled(claim.Name, claim.UID) != nil {
		v.manager().MarkTrue(Populated)
		// The Job's pod would prevent the deletion of the claim.
		return true, 0, f.deleteJob(ctx, v.Namespace, claim.Name)
	}
	job, err := f.client.BatchV1().Jobs(v.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return f.createJob(ctx, v, claim)
	}
	if err != nil {
		return false, 0, fmt.Errorf("reading the Job that fills claim %q in namespace %q: %w", claim.Name, v.Namespace, err)
	}
	switch {
	case !metav1.IsControlledBy(job, claim):
		v.manager().MarkUnknown(Populated, Pending, "Job %q has the name of the Job that fills the claim, and doesn't belong to the claim. "+
			"entrypointer deletes Jobs of its own. Delete any other Job: kubectl -n %s delete job %s", job.Name, v.Namespace, job.Name)
		return false, blockedCheckInterval, f.deleteJob(ctx, v.Namespace, job.Name)
	case jobIs(job, batchv1.JobComplete) != nil:
		v.manager().MarkTrue(Bound)
		v.manager().MarkTrue(Populated)
		return true, 0, nil
	case jobIs(job, batchv1.JobFailed) != nil:
		v.manager().MarkFalse(Populated, JobFailed, "filling claim %q failed: %s; see: kubectl -n %s describe job %s, and the logs of its pods; "+
			"change spec.volumeClaimTemplate, or delete the Job, and entrypointer tries again", claim.Name, quoted(jobIs(job, batchv1.JobFailed).Message), v.Namespace, job.Name)
		return false, blockedCheckInterval, nil
	}
	populating(v, claim)
	// A suspended Job, or one with a foreign finalizer, never ends.
	if time.Since(job.CreationTimestamp.Time) > jobPatience {
		return false, blockedCheckInterval, nil
	}
	return false, jobCheckInterval, nil
}

func (f *filler) createJob(ctx context.Context, v *SupervisorVolume, claim *corev1.PersistentVolumeClaim) (bool, time.Duration, error) {
	_, err := f.client.BatchV1().Jobs(v.Namespace).Create(ctx, f.images.wantedJob(claim), metav1.CreateOptions{})
	if refuses(err) {
		v.manager().MarkFalse(Populated, JobRefused, "creating the Job that fills claim %q: %s", claim.Name, quoted(err.Error()))
		return false, blockedCheckInterval, nil
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, 0, fmt.Errorf("creating the Job that fills claim %q in namespace %q: %w", claim.Name, v.Namespace, err)
	}
	populating(v, claim)
	return false, jobCheckInterval, nil
}

func populating(v *SupervisorVolume, claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase != corev1.ClaimBound {
		v.manager().MarkUnknown(Bound, Pending, "claim %q gets its volume for the pod of Job %q", claim.Name, claim.Name)
		return
	}
	v.manager().MarkUnknown(Populated, Populating, "Job %q copies the supervisor into claim %q", claim.Name, claim.Name)
}

func jobIs(job *batchv1.Job, what batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Type == what && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// deleteJob deletes a Job of the reconciler's and its pods, if the Job exists.
func (f *filler) deleteJob(ctx context.Context, namespace, name string) error {
	job, err := f.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (job.Labels[managedByLabel] != manager || job.DeletionTimestamp != nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Job %q in namespace %q: %w", name, namespace, err)
	}
	err = f.client.BatchV1().Jobs(namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(job.UID)), PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Job %q in namespace %q: %w", name, namespace, err)
	}
	return nil
}

// refuses reports whether an API server, or a webhook that it calls, refuses an object,
// as opposed to an outage. Webhooks choose the code: a denial without a code has 400.
func refuses(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// maxQuoted is the length, in bytes, to which a condition quotes foreign text: a status
// that is too long couldn't be written.
const maxQuoted = 1024

func quoted(said string) string {
	if len(said) <= maxQuoted {
		return said
	}
	return strings.ToValidUTF8(said[:maxQuoted], "") + "..."
}
