// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package claims fills a volume claim of a namespace with the supervisor, once for
// each version of it, and tells the pod webhook which claim pods can mount.
//
// What the namespace's owner wants of the claim is in a ToolVolume, a resource of
// ours (config/claims/300-toolvolumes.yaml); without one, the reconciler makes it.
// The claims are the ToolVolume's, and the Job that fills a claim is the claim's, so
// that Kubernetes removes each with its owner. Kubernetes keeps a claim that is deleted
// until the last scheduled pod that mounts it is gone, and schedules no more pods that
// do. So a former claim is deleted after [Spec.RetireAfter] only.
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

// Name is the name of every ToolVolume: a namespace has one at most.
const Name = "entrypointer"

// Kind is that of ToolVolumes.
const Kind = "ToolVolume"

// Resource is how the API server knows ToolVolumes.
var Resource = schema.GroupVersionResource{Group: "entrypointer.dev", Version: "v1alpha1", Resource: "toolvolumes"}

// ToolVolume says what claims with the supervisor are like in its namespace.
type ToolVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status"`
}

// Spec is the owner's.
type Spec struct {
	VolumeClaimTemplate Template `json:"volumeClaimTemplate"`
	// RetireAfter is how long a claim stays after new pods have ceased to mount it: pods
	// that were admitted with it may wait for a node, and replicas of both versions
	// answer while an upgrade is under way. Nil means 24 hours.
	RetireAfter *metav1.Duration `json:"retireAfter,omitempty"`
}

const defaultRetireAfter = 24 * time.Hour

func (s *Spec) retireAfter() time.Duration {
	if s.RetireAfter == nil {
		return defaultRetireAfter
	}
	return s.RetireAfter.Duration
}

// Template is what claims are made of. What it leaves out has the defaults of wantedClaim.
type Template struct {
	Metadata Metadata                         `json:"metadata"`
	Spec     corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// Metadata is what claims carry beside our own labels.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is the reconciler's.
type Status struct {
	duckv1.Status `json:",inline"`
	// ClaimName is the claim that new pods mount, empty while they get an init container.
	ClaimName string `json:"claimName,omitempty"`
	// Claims are those that hold a version of the supervisor, whole.
	Claims []Filled `json:"claims,omitempty"`
}

// Filled is a claim that a Job has filled.
type Filled struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"` // another claim of the name would be empty
	// Since is when new pods began to mount it.
	Since metav1.Time `json:"since"`
}

// The conditions beside Ready, which is True if both are.
const (
	Bound     apis.ConditionType = "Bound"
	Populated apis.ConditionType = "Populated"
)

// Reasons while a claim isn't ready yet.
const (
	Pending    = "Pending"    // it has no volume yet
	Populating = "Populating" // the Job copies
	// NotAskedFor is that of a ToolVolume in a namespace with another delivery.
	NotAskedFor = "NotAskedFor"
)

// Reasons of a claim that doesn't become ready unless somebody changes something.
const (
	ClaimRefused         = "ClaimRefused"         // the API server doesn't let it be created
	NameTaken            = "NameTaken"            // somebody else's claim has the name
	StorageClassNotFound = "StorageClassNotFound" // the template names one that isn't there
	ClaimLost            = "ClaimLost"            // its volume is gone
	JobRefused           = "JobRefused"           // the API server doesn't let it be created
	JobFailed            = "JobFailed"            // it could not copy
)

var conditions = apis.NewLivingConditionSet(Bound, Populated)

// GetStatus implements duckv1.KRShaped.
func (v *ToolVolume) GetStatus() *duckv1.Status { return &v.Status.Status }

// GetConditionSet implements duckv1.KRShaped.
func (*ToolVolume) GetConditionSet() apis.ConditionSet { return conditions }

func (v *ToolVolume) manager() apis.ConditionManager { return conditions.Manage(&v.Status.Status) }

// forgetConditions has all conditions be found out anew, so that none is left that is
// about another claim. It returns the status with what they were.
func (v *ToolVolume) forgetConditions() Status {
	before := Status{ClaimName: v.Status.ClaimName, Claims: slices.Clone(v.Status.Claims)}
	v.Status.Status.DeepCopyInto(&before.Status)
	v.Status.Conditions = nil
	v.manager().InitializeConditions()
	return before
}

// keepTimes gives conditions that are as they were the time since which they are. What
// others say of the same fault in other words, with a number of the request for
// instance, is left as it was for a while: each status that is written has the
// namespace looked at again.
func (v *ToolVolume) keepTimes(before Status) {
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
		case now.IsFalse() && before.ObservedGeneration == v.Generation && time.Since(since.Inner.Time) < later:
			now.Message, now.LastTransitionTime = was.Message, since
		}
	}
}

// filled finds a claim that is filled.
func (s *Status) filled(name string, uid types.UID) *Filled {
	i := slices.IndexFunc(s.Claims, func(f Filled) bool { return f.Name == name && f.UID == uid })
	if i < 0 {
		return nil
	}
	return &s.Claims[i]
}

// fromUntyped reads what the API server sends.
func fromUntyped(object *unstructured.Unstructured) (*ToolVolume, error) {
	v := &ToolVolume{}
	return v, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, v)
}

func (v *ToolVolume) untyped() (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	return &unstructured.Unstructured{Object: object}, err
}

// owner is the reference by which claims go with the ToolVolume.
func (v *ToolVolume) owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: Resource.GroupVersion().String(), Kind: Kind, Name: v.Name, UID: v.UID, Controller: new(true)}
}
