// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package claims fills a volume claim of a namespace with the supervisor, once for each
// version, and tells the pod webhook which claim pods can mount.
//
// A SupervisorVolume, a custom resource (config/claims/300-supervisorvolumes.yaml), describes the
// claim; the reconciler creates a default SupervisorVolume for a namespace without one. The
// SupervisorVolume owns the claims, and a claim owns the Job that fills it, so that Kubernetes
// removes each with its owner. Kubernetes keeps a deleted claim until the last scheduled
// pod that mounts it is gone, and schedules no more pods that mount it. So a former claim
// is deleted only after [Spec.RetireAfter].
package claims

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

// Name is the name of every SupervisorVolume: a namespace has at most one.
const Name = "entrypointer"

// Kind is the kind of a SupervisorVolume.
const Kind = "SupervisorVolume"

// Resource is the resource of SupervisorVolumes.
var Resource = schema.GroupVersionResource{Group: "entrypointer.dev", Version: "v1alpha1", Resource: "supervisorvolumes"}

// SupervisorVolume describes the claims with the supervisor in its namespace.
type SupervisorVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is written by the namespace's owner.
type Spec struct {
	VolumeClaimTemplate Template `json:"volumeClaimTemplate"`
	// RetireAfter is the time for which a claim stays after new pods have ceased to mount
	// it: pods that were admitted with it may wait for a node, and during an upgrade,
	// replicas of both versions admit pods. Nil means 24 hours.
	RetireAfter *metav1.Duration `json:"retireAfter,omitempty"`
}

const defaultRetireAfter = 24 * time.Hour

func (s *Spec) retireAfter() time.Duration {
	if s.RetireAfter == nil {
		return defaultRetireAfter
	}
	return s.RetireAfter.Duration
}

// Template describes the claims. wantedClaim has the defaults.
type Template struct {
	Metadata Metadata                         `json:"metadata"`
	Spec     corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// Metadata is added to the claims' metadata.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is written by the reconciler.
type Status struct {
	duckv1.Status `json:",inline"`
	// ClaimName is the claim that new pods mount, empty while they get an init container.
	ClaimName string `json:"claimName,omitempty"`
	// Claims are the claims that completely hold a version of the supervisor.
	Claims []Filled `json:"claims,omitempty"`
}

// Filled is a claim that a Job has filled.
type Filled struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"` // a new claim of the same name would be empty
	// Since is the time from which on new pods mounted the claim.
	Since metav1.Time `json:"since"`
}

// The conditions beside Ready, which is True if both are.
const (
	Bound     apis.ConditionType = "Bound"
	Populated apis.ConditionType = "Populated"
)

// Reasons while a claim isn't ready yet.
const (
	Pending    = "Pending"    // the claim has no volume yet
	Populating = "Populating" // the Job is copying
	// NotAskedFor is the reason for a SupervisorVolume in a namespace with another delivery.
	NotAskedFor = "NotAskedFor"
)

// Reasons of a claim that becomes ready only after a manual change.
const (
	ClaimRefused         = "ClaimRefused"         // the API server refuses to create the claim
	NameTaken            = "NameTaken"            // a claim of another owner has the name
	StorageClassNotFound = "StorageClassNotFound" // the template names a storage class that doesn't exist
	ClaimLost            = "ClaimLost"            // the claim's volume is gone
	JobRefused           = "JobRefused"           // the API server refuses to create the Job
	JobFailed            = "JobFailed"            // the Job could not copy
)

var conditions = apis.NewLivingConditionSet(Bound, Populated)

// GetStatus implements duckv1.KRShaped.
func (v *SupervisorVolume) GetStatus() *duckv1.Status { return &v.Status.Status }

// GetConditionSet implements duckv1.KRShaped.
func (*SupervisorVolume) GetConditionSet() apis.ConditionSet { return conditions }

func (v *SupervisorVolume) manager() apis.ConditionManager {
	return conditions.Manage(&v.Status.Status)
}

// forgetConditions resets all conditions, so that none about another claim is left. It
// returns the status with the former conditions.
func (v *SupervisorVolume) forgetConditions() Status {
	before := Status{ClaimName: v.Status.ClaimName, Claims: slices.Clone(v.Status.Claims)}
	v.Status.Status.DeepCopyInto(&before.Status)
	v.Status.Conditions = nil
	v.manager().InitializeConditions()
	return before
}

// keepTimes restores the transition times of unchanged conditions. A foreign message
// about the same fault in other words, with a number of the request for instance, doesn't
// replace the former message for a while: each written status triggers another
// reconciliation.
func (v *SupervisorVolume) keepTimes(before Status) {
	for i := range v.Status.Conditions {
		now := &v.Status.Conditions[i]
		was := before.GetCondition(now.Type)
		if was == nil || was.Status != now.Status || was.Reason != now.Reason {
			continue
		}
		since := was.LastTransitionTime
		switch {
		case was.Message == now.Message:
			now.LastTransitionTime = since
		case now.IsFalse() && before.ObservedGeneration == v.Generation && time.Since(since.Inner.Time) < blockedCheckInterval:
			now.Message, now.LastTransitionTime = was.Message, since
		}
	}
}

// filled finds a filled claim.
func (s *Status) filled(name string, uid types.UID) *Filled {
	i := slices.IndexFunc(s.Claims, func(f Filled) bool { return f.Name == name && f.UID == uid })
	if i < 0 {
		return nil
	}
	return &s.Claims[i]
}

// fromUntyped converts an object of the API server's.
func fromUntyped(object *unstructured.Unstructured) (*SupervisorVolume, error) {
	v := &SupervisorVolume{}
	return v, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, v)
}

func (v *SupervisorVolume) untyped() (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	return &unstructured.Unstructured{Object: object}, err
}

// owner returns the owner reference by which claims are deleted with the SupervisorVolume.
func (v *SupervisorVolume) owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: Resource.GroupVersion().String(), Kind: Kind, Name: v.Name, UID: v.UID, Controller: new(true)}
}
