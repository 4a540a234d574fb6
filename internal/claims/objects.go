// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	managedByLabel = "app.kubernetes.io/managed-by"
	manager        = "entrypointer"
	// copierUser is the user of the copier's images, and the group that gets the volume
	// if the storage supports fsGroup.
	copierUser = 65532
	// defaultSize is the requested size if the template has none: several times the size
	// of both binaries.
	defaultSize = "64Mi"
	// jobPatience limits the time for filling a claim, from the Job's creation.
	jobPatience = 10 * time.Minute
	jobRetries  = 3
	// claimMount is the mount path of the claim in the Job.
	claimMount = "/claim"
)

// ourLabels returns the labels of all objects that the reconciler creates.
func ourLabels() map[string]string {
	return map[string]string{managedByLabel: manager, "app.kubernetes.io/part-of": manager}
}

// Images are the images that fill a claim, pinned by digest.
type Images struct{ Copier, CopierWithLogs string }

// claimName returns the name of the claim with this version of the supervisor and this
// template: a claim's specification can't be changed, so another template needs another
// claim.
func (i Images) claimName(template Template) (string, error) {
	document, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encoding a volume claim template: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{digestOf(i.Copier), digestOf(i.CopierWithLogs), string(document)}, "\n")))
	return pod.ClaimPrefix + hex.EncodeToString(sum[:6]), nil
}

// digestOf returns the digest of an image. The repository doesn't matter: it differs at a
// mirror.
func digestOf(image string) string {
	return image[strings.LastIndexByte(image, '@')+1:]
}

// wantedClaim returns the claim for a template.
func wantedClaim(v *SupervisorVolume, name string) *corev1.PersistentVolumeClaim {
	template := v.Spec.VolumeClaimTemplate
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: v.Namespace,
			Labels: maps.Clone(template.Metadata.Labels), Annotations: template.Metadata.Annotations,
			OwnerReferences: []metav1.OwnerReference{v.owner()},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, ourLabels())
	if len(claim.Spec.AccessModes) == 0 {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	if _, set := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !set {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(defaultSize)}
	}
	return claim
}

// wantedJob returns the Job that fills the claim, with one container for each binary. The
// claim owns the Job, so that the Job of a replaced claim doesn't count.
func (i Images) wantedJob(claim *corev1.PersistentVolumeClaim) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Namespace: claim.Namespace, Labels: ourLabels(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: corev1.SchemeGroupVersion.String(), Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID, Controller: new(true),
			}},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:          new(int32(jobRetries)),
			ActiveDeadlineSeconds: new(int64(jobPatience / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ourLabels()},
				Spec: corev1.PodSpec{
					RestartPolicy:                corev1.RestartPolicyNever,
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					NodeSelector:                 map[string]string{corev1.LabelOSStable: "linux"},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:        new(true),
						FSGroup:             new(int64(copierUser)),
						FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
						SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{
						copierContainer("plain", i.Copier, pod.ClaimPath),
						copierContainer("with-logs", i.CopierWithLogs, pod.ClaimPathWithLogs),
					},
					Volumes: []corev1.Volume{{Name: "claim", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
					}}},
				},
			},
		},
	}
}

func copierContainer(name, image, target string) corev1.Container {
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:                     []string{"-durable", path.Join(claimMount, target)},
		Resources:                corev1.ResourceRequirements{Requests: few, Limits: few},
		VolumeMounts:             []corev1.VolumeMount{{Name: "claim", MountPath: claimMount}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}
