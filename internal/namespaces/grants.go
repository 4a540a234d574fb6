// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// GrantName is the name of the RoleBinding that lets the injector read pull secrets and
// service accounts in a namespace, and of the ClusterRole to which it binds. The rights
// in config/webhook restrict the injector to RoleBindings of this name.
const GrantName = "entrypointer-lookup"

const (
	serviceAccount = "injector"
	fieldManager   = "entrypointer"
)

// partOf marks the project's objects for users: kubectl get rolebindings -A -l ...
var partOf = map[string]string{"app.kubernetes.io/part-of": "entrypointer"}

var grantedRole = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: GrantName}

// untilSeen is the backoff for an API server that doesn't know yet that a namespace opted
// in, and refuses the grant (config/webhook/210-confine-injector.yaml).
var untilSeen = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 3, Steps: 4}

// grants lets the injector read pull secrets only where it looks images up: by a
// RoleBinding in each namespace that opted in.
type grants struct {
	client     kubernetes.Interface
	own        string
	namespaces corelisters.NamespaceLister
	bindings   rbaclisters.RoleBindingLister
}

// areWanted reports whether the grant of a namespace with a scope is as wanted: there, or
// not there.
func (g grants) areWanted(namespace string, scope pod.Scope) bool {
	current, err := g.bindings.RoleBindings(namespace).Get(GrantName)
	if scope == pod.NoPods {
		return apierrors.IsNotFound(err) || err == nil && current.RoleRef != grantedRole
	}
	if err != nil || current.RoleRef != grantedRole {
		return false
	}
	wanted, err := g.wanted(namespace)
	return err == nil && isCurrent(current, wanted)
}

// grant creates the RoleBinding, or repairs it. A RoleBinding of the same name that binds
// another role has another owner, and stays unchanged.
func (g grants) grant(ctx context.Context, namespace string) error {
	wanted, err := g.wanted(namespace)
	if err != nil {
		return err
	}
	current, err := g.bindings.RoleBindings(namespace).Get(GrantName)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading RoleBinding %q in namespace %q: %w", GrantName, namespace, err)
	case err == nil && current.RoleRef != grantedRole:
		return reconciler.NewEvent(corev1.EventTypeWarning, "LookupNotGranted",
			"letting the injector read pull secrets in namespace %q: a RoleBinding %q exists that binds %s %q; "+
				"delete it, or set command: in every container that shall be wrapped",
			namespace, GrantName, current.RoleRef.Kind, current.RoleRef.Name)
	case err == nil && isCurrent(current, wanted):
		return nil
	}
	document, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("encoding RoleBinding %q: %w", GrantName, err)
	}
	err = retry.OnError(untilSeen, isPremature, func() error {
		_, err := g.client.RbacV1().RoleBindings(namespace).Patch(ctx, GrantName, types.ApplyPatchType, document,
			metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
		return err
	})
	switch {
	case isGoing(err):
		return nil
	case err != nil:
		return fmt.Errorf("applying RoleBinding %q in namespace %q: %w", GrantName, namespace, err)
	}
	logging.FromContext(ctx).Infow("Granted lookups in a namespace", zap.String("namespace", namespace))
	return nil
}

// revoke removes the RoleBinding, if it is the injector's.
func (g grants) revoke(ctx context.Context, namespace string) error {
	current, err := g.bindings.RoleBindings(namespace).Get(GrantName)
	switch {
	case apierrors.IsNotFound(err), err == nil && current.RoleRef != grantedRole:
		return nil
	case err != nil:
		return fmt.Errorf("reading RoleBinding %q in namespace %q: %w", GrantName, namespace, err)
	}
	err = g.client.RbacV1().RoleBindings(namespace).Delete(ctx, GrantName, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(current.UID)),
	})
	switch {
	// The RoleBinding has been replaced since; the next event is about the replacement.
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting RoleBinding %q in namespace %q: %w", GrantName, namespace, err)
	}
	logging.FromContext(ctx).Infow("Revoked lookups in a namespace", zap.String("namespace", namespace))
	return nil
}

// wanted returns the wanted RoleBinding. The injector's own namespace owns it, so that it
// is deleted with the injector.
func (g grants) wanted(namespace string) (*rbacv1.RoleBinding, error) {
	owner, err := g.namespaces.Get(g.own)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", g.own, err)
	}
	return grantOf(metav1.OwnerReference{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Namespace", Name: owner.Name, UID: owner.UID,
	}, g.own, namespace), nil
}

// grantOf returns the RoleBinding in a namespace that lets the injector, whose namespace
// is own, look images up.
func grantOf(owner metav1.OwnerReference, own, namespace string) *rbacv1.RoleBinding {
	binding := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: GrantName, Namespace: namespace, Labels: partOf},
		RoleRef:    grantedRole,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: serviceAccount, Namespace: own}},
	}
	if owner.UID != "" {
		binding.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return binding
}

func isCurrent(current, wanted *rbacv1.RoleBinding) bool {
	return equality.Semantic.DeepEqual(current.Subjects, wanted.Subjects) &&
		slices.Contains(current.OwnerReferences, wanted.OwnerReferences[0]) &&
		equality.Semantic.DeepDerivative(wanted.Labels, current.Labels)
}

func isPremature(err error) bool { return apierrors.IsForbidden(err) && !isGoing(err) }

// isGoing reports whether the namespace is being deleted, or already gone.
func isGoing(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
